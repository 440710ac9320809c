import { setTimeout as delay } from "node:timers/promises";
import type { Pool } from "pg";
import { createPool } from "./connect.ts";
import { findPrimary } from "./find-primary.ts";
import type { Health } from "./health.ts";
import { limits } from "./limits.ts";
import type { Location } from "./location.ts";
import { classify, describe, isTimeout, unavailable } from "./postgres-error.ts";
import { probe, type ProbedServer } from "./probe.ts";
import { createSockets, type Sockets } from "./sockets.ts";

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
