import type { Client } from "pg";
import type { Query } from "../sql/query.ts";
import type { Database } from "./database.ts";

/** How often something happened, by any replica. */
export type ChangeCounts = {
  /** The sequence number of the newest revision, and its `rev`. */
  readonly seq: number;
  readonly rev: string;
  readonly reloads: number;
  readonly revocations: number;
};

export interface Changes extends AsyncDisposable {
  /** The counts that were read last. */
  latest(): ChangeCounts;
  /** When they were requested, by `performance.now`. */
  readAtMs(): number;
  /** Reads the counts, and resolves when the listeners have processed them. */
  refresh(): Promise<void>;
  /** Wakes the other replicas when the transaction is committed. */
  announce(query: Query): Promise<void>;
  /** Calls the listener after each read, in the order of registration, and waits for it. */
  onChange(listener: (counts: ChangeCounts) => void | Promise<void>): void;
}

const channel = "flowgate";

/** Limits how often notifications wake this replica. */
const wakeIntervalMs = 20;

/** Changes are noticed within this time also without notifications, which can be lost. */
const pollMs = 400;
const listenAgainMs = 1_000;
/** A server that does not reply within this time is not waited for, but another primary is searched. */
const readMs = 2_000;

/**
 * Notices what other replicas change. Notifications only wake it: what has changed is read, so that nothing is missed when the
 * connection was lost, or a connection pooler does not support notifications.
 */
export async function openChanges(database: Database): Promise<Changes> {
  const listeners: ((counts: ChangeCounts) => void | Promise<void>)[] = [];
  let readAtMs = performance.now();
  let latest = await readCounts(database.query);
  let running: Promise<void> | undefined;
  let next: Promise<void> | undefined;
  let isClosed = false;
  let client: Client | undefined;
  let timer: NodeJS.Timeout | undefined;
  let listenTimer: NodeJS.Timeout | undefined;

  async function readOnce(): Promise<void> {
    const requestedAtMs = performance.now();
    latest = await readCounts(database.query);
    readAtMs = requestedAtMs;
    for (const listener of listeners) {
      await listener(latest);
    }
  }

  /** A read that begins after the call, shared by all callers that wait for the current one. */
  function refresh(): Promise<void> {
    if (running === undefined) {
      running = readOnce().finally(() => (running = undefined));
      return running;
    }
    next ??= running
      .catch(() => {})
      .then(() => {
        next = undefined;
        return refresh();
      });
    return next;
  }

  let wakeTimer: NodeJS.Timeout | undefined;
  let wokenAtMs = Number.NEGATIVE_INFINITY;

  function wake(): void {
    wakeTimer ??= setTimeout(
      () => {
        wakeTimer = undefined;
        wokenAtMs = performance.now();
        // Failures are recorded by the database, and the next poll reads again.
        refresh().catch(() => {});
      },
      Math.max(0, wokenAtMs + wakeIntervalMs - performance.now()),
    ).unref();
  }

  async function poll(): Promise<void> {
    await refresh().catch(() => {});
    if (!isClosed) {
      timer = setTimeout(() => void poll(), pollMs).unref();
    }
  }

  async function listen(): Promise<void> {
    try {
      const connected = await database.connect();
      if (isClosed) {
        void connected.end().catch(() => {});
        return;
      }
      client = connected;
      client.on("notification", wake);
      client.on("end", () => {
        client = undefined;
        listenLater();
      });
      await client.query(`LISTEN ${channel}`);
      wake();
    } catch {
      if (client === undefined) {
        listenLater();
      } else {
        // Its end begins the next attempt.
        void client.end().catch(() => {});
      }
    }
  }

  function listenLater(): void {
    if (!isClosed) {
      listenTimer = setTimeout(() => void listen(), listenAgainMs).unref();
    }
  }

  void listen();
  timer = setTimeout(() => void poll(), pollMs).unref();

  return {
    latest: () => latest,
    readAtMs: () => readAtMs,
    refresh,
    announce: async (query) => void (await query(`NOTIFY ${channel}`)),
    onChange: (listener) => void listeners.push(listener),
    async [Symbol.asyncDispose]() {
      isClosed = true;
      clearTimeout(timer);
      clearTimeout(wakeTimer);
      clearTimeout(listenTimer);
      // The database closes it if the server does not respond.
      void client?.end().catch(() => {});
      await running?.catch(() => {});
    },
  };
}

export async function readCounts(query: Query): Promise<ChangeCounts> {
  const [counts] = await query<ChangeCounts>(
    `SELECT seq, rev, reloads, revocations
     FROM flowgate.change, (SELECT seq, rev FROM flowgate.revision ORDER BY seq DESC LIMIT 1) AS newest`,
    [],
    readMs,
  );
  if (counts === undefined) {
    throw new Error("the tables of the store are empty: restore the database from a backup");
  }
  return counts;
}
