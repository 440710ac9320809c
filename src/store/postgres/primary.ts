import { setTimeout as delay } from "node:timers/promises";
import type { Pool, Client } from "pg";
import { createPool, limits, createSockets, type Sockets, connect } from "./connect.ts";
import type { Location } from "./location.ts";
import { classify, describe, isTimeout, unavailable, NotPrimary } from "./errors.ts";
import type { ServerConfig } from "./authentication.ts";
import { createListeners } from "../../base/listeners.ts";
import type { Store, StoreHealth } from "../store.ts";

/** The server that accepts writes. */
export type Primary = ProbedServer & {
  readonly pool: Pool;
  /** Those of the pool, and of other connections. */
  readonly sockets: Sockets;
};

/** Follows which of the servers is the primary. */
export interface PrimaryTracker extends AsyncDisposable {
  /** Waits a moment for a search in progress. Rejects if there is no primary. */
  current(): Promise<Primary>;
  /** Records that an operation on `server` has failed, and searches for the primary if it was the connection. */
  recordFailure(error: unknown, server: Primary): void;
}

/** Connects to the primary among the servers. Rejects if there is none. */
export async function openPrimaryTracker({ servers, poolSize }: Location, health: Health): Promise<PrimaryTracker> {
  const closing = new AbortController();
  let primary: Primary | undefined;
  let highestTimeline = 0;
  let search: Promise<void> | undefined;

  function use(found: ProbedServer): void {
    highestTimeline = Math.max(highestTimeline, found.timeline);
    const sockets = createSockets();
    const used = { ...found, sockets, pool: createPool(found.config, sockets, poolSize) };
    // An idle connection was closed by the server. Without a listener, the process would end.
    used.pool.on("error", (error) => recordFailure(error, used));
    primary = used;
    health.set({ isUsable: true });
  }

  async function searchPrimary(): Promise<void> {
    const found = await findPrimary(servers, {
      minTimeline: highestTimeline,
      signal: closing.signal,
      onFailure: (failure) => health.set({ isUsable: false, message: describe(failure) }),
    });
    if (found !== undefined && !closing.signal.aborted) {
      use(found);
    }
  }

  function startSearch(): Promise<void> {
    search ??= searchPrimary().finally(() => (search = undefined));
    return search;
  }

  function leave(left: Primary, isResponsive: boolean): void {
    primary = undefined;
    void startSearch();
    // Waits for the connections in use, which fail by themselves.
    left.pool.end().catch(() => {});
    if (!isResponsive) {
      // They would fail much later.
      left.sockets.destroy();
    }
  }

  function recordFailure(error: unknown, server: Primary): void {
    const failure = classify(error);
    if (closing.signal.aborted || failure === "other" || failure === "busy") {
      return;
    }
    if (server !== primary) {
      // Connections to a server that was left fail later than the first one, and may show that it does not respond.
      if (isTimeout(error)) {
        server.sockets.destroy();
      }
      return;
    }
    health.set({ isUsable: false, message: describe(error) });
    if (failure === "connection") {
      leave(server, !isTimeout(error));
    }
  }

  try {
    // The first one that replies: another may not respond at all.
    use(await Promise.any(servers.map((config) => probe(config, highestTimeline))));
  } catch (cause) {
    throw new Error(`the store can't be opened: ${describe(cause)}`, { cause });
  }

  return {
    async current() {
      if (closing.signal.aborted) {
        throw unavailable("the store is closed");
      }
      if (primary === undefined) {
        const timeout = Promise.withResolvers<void>();
        const timer = setTimeout(timeout.resolve, limits.primaryWaitMs);
        await Promise.race([startSearch(), timeout.promise]);
        clearTimeout(timer);
      }
      if (primary === undefined) {
        throw unavailable("the database is not available: try again");
      }
      return primary;
    },
    recordFailure,
    async [Symbol.asyncDispose]() {
      closing.abort();
      const last = primary;
      primary = undefined;
      health.set({ isUsable: false, message: "the store is closed" });
      if (last !== undefined) {
        await Promise.race([last.pool.end(), delay(limits.endMs, undefined, { ref: false })]);
        last.sockets.destroy();
      }
    },
  };
}

export type Search = {
  /** Servers of earlier timelines were replaced. */
  readonly minTimeline: number;
  /** Ends the search. */
  readonly signal: AbortSignal;
  /** Called with the last failure of each server once all have been tried, and then with each further one. */
  readonly onFailure: (failure: AggregateError) => void;
};

/** Probes the servers until one of them is the primary. Resolves with undefined if the search was ended before. */
export async function findPrimary(servers: readonly ServerConfig[], search: Search): Promise<ProbedServer | undefined> {
  const found = new AbortController();
  const signal = AbortSignal.any([search.signal, found.signal]);
  const failures = new Map<ServerConfig, unknown>();

  async function findAt(config: ServerConfig): Promise<ProbedServer | undefined> {
    while (!signal.aborted) {
      try {
        return await probe(config, search.minTimeline);
      } catch (error) {
        failures.set(config, error);
        // Until all have been tried, it is not known which failure matters.
        if (!signal.aborted && failures.size === servers.length) {
          search.onFailure(new AggregateError(failures.values()));
        }
      }
      await delay(limits.searchPauseMs, undefined, { ref: false });
    }
    return undefined;
  }

  // All at the same time: one that does not respond must not delay the others.
  const primary = await Promise.race(servers.map(findAt));
  found.abort();
  return primary;
}

/** A server that accepts writes. */
export type ProbedServer = {
  readonly config: ServerConfig;
  /** The id of its timeline, which increases when a standby is promoted; 0 if it is unknown. */
  readonly timeline: number;
  /** Whether its setting is that commits are on the disk before they are reported. */
  readonly isDurable: boolean;
};

/** Resolves if the server is a primary, and not one that was replaced. */
export async function probe(config: ServerConfig, minTimeline: number): Promise<ProbedServer> {
  const sockets = createSockets();
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

export interface Health extends Pick<Store, "health" | "onHealthChange"> {
  set(next: StoreHealth): void;
}

/** Whether the database is usable, which it is at first. */
export function createHealth(): Health {
  const listeners = createListeners<void>();
  let health: StoreHealth = { isUsable: true };
  return {
    health: () => health,
    onHealthChange: (listener) => listeners.add(listener),
    set(next) {
      if (
        health.isUsable !== next.isUsable ||
        (!next.isUsable && !health.isUsable && next.message !== health.message)
      ) {
        health = next;
        listeners.notify();
      }
    },
  };
}
