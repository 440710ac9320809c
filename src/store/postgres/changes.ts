import type { Client } from "pg";
import { createRerun } from "@flowgate/base/rerun";
import type { Query } from "../sql/query.ts";
import type { Database } from "./database.ts";

/** The number of changes of each kind, by any replica. */
export type ChangeCounts = {
  /** The sequence number of the newest revision, and its `rev`. */
  readonly seq: number;
  readonly rev: string;
  readonly reloads: number;
  readonly revocations: number;
  /** The number of the set of modules that the newest revision has; null: it is not known. */
  readonly moduleSetSeq: number | null;
  /** The number of the desired state; null: there is none. */
  readonly desiredSeq: number | null;
  /** The newest write of nodes; null: there is none. */
  readonly credentialSeq: number | null;
  /** Identifies the settings of modules. */
  readonly settings: string;
  /** `KeyState.current`. */
  readonly keyId: string;
};

type Listener = (counts: ChangeCounts) => void | Promise<void>;

const channel = "flowgate";

/** Limits how often notifications wake this replica. */
const wakeIntervalMs = 20;

/** Changes are noticed within this time also without notifications, which can be lost. */
const pollMs = 400;
const listenAgainMs = 1_000;
/** A server that does not reply within this time is not waited for, but another primary is searched. */
const readMs = 2_000;

export async function openChanges(database: Database): Promise<Changes> {
  const readAtMs = performance.now();
  return new Changes(database, await readCounts(database.query), readAtMs);
}

/**
 * Notices changes made by other replicas. Notifications only trigger a read of the changes, so that nothing is missed
 * when the connection was lost, or a connection pooler does not support notifications.
 */
export class Changes implements AsyncDisposable {
  readonly #database: Database;
  readonly #listeners: Listener[] = [];
  #latest: ChangeCounts;
  #readAtMs: number;
  #reading: Promise<void> | undefined;
  #isClosed = false;
  #client: Client | undefined;
  #pollTimer: NodeJS.Timeout | undefined;
  #listenTimer: NodeJS.Timeout | undefined;
  #wakeTimer: NodeJS.Timeout | undefined;
  #wokenAtMs = Number.NEGATIVE_INFINITY;

  constructor(database: Database, latest: ChangeCounts, readAtMs: number) {
    this.#database = database;
    this.#latest = latest;
    this.#readAtMs = readAtMs;
    void this.#listen();
    this.#pollLater();
  }

  /** The counts that were read last. */
  latest(): ChangeCounts {
    return this.#latest;
  }

  /** The time at which they were requested, by `performance.now`. */
  readAtMs(): number {
    return this.#readAtMs;
  }

  /** Calls the listener after each read, in the order of registration, and waits for it. */
  onChange(listener: Listener): void {
    this.#listeners.push(listener);
  }

  /** Wakes the other replicas when the transaction is committed. */
  async announce(query: Query): Promise<void> {
    await query(`NOTIFY ${channel}`);
  }

  /**
   * Reads the counts, and resolves when the listeners have processed them. The read begins after the call, and all callers that
   * wait for the current one share it.
   */
  readonly refresh = createRerun(() => (this.#reading = this.#read()));

  async #read(): Promise<void> {
    const requestedAtMs = performance.now();
    this.#latest = await readCounts(this.#database.query);
    this.#readAtMs = requestedAtMs;
    for (const listener of this.#listeners) {
      await listener(this.#latest);
    }
  }

  #wake(): void {
    this.#wakeTimer ??= setTimeout(
      () => {
        this.#wakeTimer = undefined;
        this.#wokenAtMs = performance.now();
        // Failures are recorded by the database, and the next poll reads again.
        this.refresh().catch(() => {});
      },
      Math.max(0, this.#wokenAtMs + wakeIntervalMs - performance.now()),
    ).unref();
  }

  #pollLater(): void {
    const poll = async (): Promise<void> => {
      await this.refresh().catch(() => {});
      if (!this.#isClosed) {
        this.#pollLater();
      }
    };
    this.#pollTimer = setTimeout(() => void poll(), pollMs).unref();
  }

  async #listen(): Promise<void> {
    try {
      const client = await this.#database.connect();
      if (this.#isClosed) {
        void client.end().catch(() => {});
        return;
      }
      this.#client = client;
      client.on("notification", () => this.#wake());
      client.on("end", () => {
        this.#client = undefined;
        this.#listenLater();
      });
      await client.query(`LISTEN ${channel}`);
      this.#wake();
    } catch {
      if (this.#client === undefined) {
        this.#listenLater();
      } else {
        // Its end begins the next attempt.
        void this.#client.end().catch(() => {});
      }
    }
  }

  #listenLater(): void {
    if (!this.#isClosed) {
      this.#listenTimer = setTimeout(() => void this.#listen(), listenAgainMs).unref();
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#isClosed = true;
    clearTimeout(this.#pollTimer);
    clearTimeout(this.#wakeTimer);
    clearTimeout(this.#listenTimer);
    // The database closes it if the server does not respond.
    void this.#client?.end().catch(() => {});
    await this.#reading?.catch(() => {});
  }
}
export async function readCounts(query: Query): Promise<ChangeCounts> {
  const [counts] = await query<ChangeCounts>(
    `SELECT seq, rev, module_set_seq AS "moduleSetSeq", reloads, revocations,
       (SELECT max(seq) FROM flowgate.desired_state) AS "desiredSeq",
       (SELECT max(seq) FROM flowgate.node_credential) AS "credentialSeq",
       (SELECT concat(count(*), ' ', max(seq)) FROM flowgate.node_setting) AS settings,
       (SELECT key_id FROM flowgate.credential_key) AS "keyId"
     FROM flowgate.change, (SELECT seq, rev, module_set_seq FROM flowgate.revision ORDER BY seq DESC LIMIT 1) AS newest`,
    [],
    readMs,
  );
  if (counts === undefined) {
    throw new Error("the tables of the store are empty: restore the database from a backup");
  }
  return counts;
}
