import { setTimeout as delay } from "node:timers/promises";
import type { Client, Pool } from "pg";
import { DatabaseHealth } from "../store.ts";
import type { ServerConfig } from "./authentication.ts";
import { connect, createPool, limits, Sockets } from "./connect.ts";
import { classify, describe, isTimeout, NotPrimary, unavailable } from "./errors.ts";
import type { Location } from "./location.ts";

export type Primary = ProbedServer & {
  readonly pool: Pool;
  /** The sockets of the pool, and of other connections. */
  readonly sockets: Sockets;
};

/** Connects to the primary among the servers. Rejects if there is none. */
export async function openPrimaryTracker({ servers, poolSize }: Location): Promise<PrimaryTracker> {
  try {
    // The first one that replies: another may not respond at all.
    const found = await Promise.any(servers.map((config) => probe(config, 0)));
    return new PrimaryTracker(servers, poolSize, found);
  } catch (cause) {
    throw new Error(`the store can't be opened: ${describe(cause)}`, { cause });
  }
}

export class PrimaryTracker implements AsyncDisposable {
  readonly health = new DatabaseHealth();
  readonly #servers: readonly ServerConfig[];
  readonly #poolSize: number;
  readonly #closing = new AbortController();
  #primary: Primary | undefined;
  #highestTimeline = 0;
  #search: Promise<void> | undefined;

  constructor(servers: readonly ServerConfig[], poolSize: number, found: ProbedServer) {
    this.#servers = servers;
    this.#poolSize = poolSize;
    this.#use(found);
  }

  /** Waits a moment for a search in progress. Rejects if there is no primary. */
  async current(): Promise<Primary> {
    if (this.#closing.signal.aborted) {
      throw unavailable("the store is closed");
    }
    if (this.#primary === undefined) {
      const timeout = Promise.withResolvers<void>();
      const timer = setTimeout(timeout.resolve, limits.primaryWaitMs);
      await Promise.race([this.#startSearch(), timeout.promise]);
      clearTimeout(timer);
    }
    if (this.#primary === undefined) {
      throw unavailable("the database is not available: try again");
    }
    return this.#primary;
  }

  /** Records that an operation on `server` has failed, and searches for the primary if it was the connection. */
  recordFailure(error: unknown, server: Primary): void {
    const failure = classify(error);
    if (this.#closing.signal.aborted || failure === "other" || failure === "busy") {
      return;
    }
    if (server !== this.#primary) {
      // Connections to a server that was left fail later than the first one, and may show that it does not respond.
      if (isTimeout(error)) {
        server.sockets.destroy();
      }
      return;
    }
    this.health.set({ isUsable: false, message: describe(error) });
    if (failure === "connection") {
      this.#leave(server, !isTimeout(error));
    }
  }

  #use(found: ProbedServer): void {
    this.#highestTimeline = Math.max(this.#highestTimeline, found.timeline);
    const sockets = new Sockets();
    const used = { ...found, sockets, pool: createPool(found.config, sockets, this.#poolSize) };
    // An idle connection was closed by the server. Without a listener, the process would end.
    used.pool.on("error", (error) => this.recordFailure(error, used));
    this.#primary = used;
    this.health.set({ isUsable: true });
  }

  #leave(left: Primary, isResponsive: boolean): void {
    this.#primary = undefined;
    void this.#startSearch();
    // Waits for the connections in use, which fail by themselves.
    left.pool.end().catch(() => {});
    if (!isResponsive) {
      // They would fail much later.
      left.sockets.destroy();
    }
  }

  #startSearch(): Promise<void> {
    this.#search ??= this.#findPrimary().finally(() => (this.#search = undefined));
    return this.#search;
  }

  /** Probes the servers until one of them is the primary. */
  async #findPrimary(): Promise<void> {
    const found = new AbortController();
    const signal = AbortSignal.any([this.#closing.signal, found.signal]);
    const failures = new Map<ServerConfig, unknown>();
    const findAt = async (config: ServerConfig): Promise<ProbedServer | undefined> => {
      while (!signal.aborted) {
        try {
          return await probe(config, this.#highestTimeline);
        } catch (error) {
          failures.set(config, error);
          // Until all have been tried, it is not known which failure matters.
          if (!signal.aborted && failures.size === this.#servers.length) {
            this.health.set({ isUsable: false, message: describe(new AggregateError(failures.values())) });
          }
        }
        await delay(limits.searchPauseMs, undefined, { ref: false });
      }
      return undefined;
    };

    // All at the same time: one that does not respond must not delay the others.
    const primary = await Promise.race(this.#servers.map(findAt));
    found.abort();
    if (primary !== undefined && !this.#closing.signal.aborted) {
      this.#use(primary);
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#closing.abort();
    const last = this.#primary;
    this.#primary = undefined;
    this.health.set({ isUsable: false, message: "the store is closed" });
    if (last !== undefined) {
      await Promise.race([last.pool.end(), delay(limits.endMs, undefined, { ref: false })]);
      last.sockets.destroy();
    }
  }
}

/** A server that accepts writes. */
type ProbedServer = {
  readonly config: ServerConfig;
  /** The id of its timeline, which increases when a standby is promoted; 0 if it is unknown. */
  readonly timeline: number;
  /** True if its setting is that commits are on the disk before they are reported. */
  readonly isDurable: boolean;
};

/** Resolves if the server is a primary, and not one that was replaced. */
async function probe(config: ServerConfig, minTimeline: number): Promise<ProbedServer> {
  const sockets = new Sockets();
  setTimeout(() => sockets.destroy(), limits.probeMs).unref();
  const client = await connect(config, sockets);
  try {
    const { rows } = await client.query<{ writable: boolean; durable: boolean }>(
      "SELECT NOT pg_is_in_recovery() AND current_setting('transaction_read_only') = 'off' AS writable, " +
        "current_setting('synchronous_commit') <> 'off' AS durable",
    );
    const [settings] = rows;
    if (settings?.writable !== true) {
      throw new NotPrimary("the server is a standby");
    }
    const timeline = await readTimeline(client);
    if (timeline < minTimeline) {
      throw new NotPrimary("the server was replaced by a promoted standby");
    }
    return { config, timeline, isDurable: settings.durable };
  } finally {
    void client.end().catch(() => {});
  }
}

async function readTimeline(client: Client): Promise<number> {
  try {
    const { rows } = await client.query<{ timeline: number }>(
      "SELECT ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::int AS timeline",
    );
    return rows[0]?.timeline ?? 0;
  } catch {
    // Some hosted databases have no log files that SQL can name.
    return 0;
  }
}
