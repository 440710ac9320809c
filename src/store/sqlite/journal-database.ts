import { rmSync } from "node:fs";
import { DatabaseSync } from "node:sqlite";
import type { JournalStore } from "../journal-store.ts";
import {
  appendEvents,
  claimCursor,
  findLastSeq,
  listEvents,
  moveCursor,
  removeOldest,
  removeOlder,
} from "../sql/journal.ts";
import type { Query } from "../sql/query.ts";
import { inSyncTransaction, inTransaction, lockTimeoutMs, queryOf } from "./connection.ts";
import { createPrivateFile } from "./database.ts";
import { isDamaged } from "./errors.ts";

/** "FLGJ". The version is changed with the schema: a journal of another version is replaced. */
const applicationId = 0x464c474a;
const schemaVersion = 2;

const schema = `
  CREATE TABLE event (
    seq INTEGER NOT NULL,
    runtime TEXT NOT NULL,
    time_ms INTEGER NOT NULL,
    kind TEXT NOT NULL,
    level INTEGER,
    flow_id TEXT NOT NULL,
    node_id TEXT NOT NULL,
    node_type TEXT NOT NULL,
    node_name TEXT NOT NULL,
    data BLOB NOT NULL,
    PRIMARY KEY (seq, runtime)
  ) STRICT;
  CREATE TABLE journal_cursor (
    name TEXT PRIMARY KEY,
    position TEXT NOT NULL,
    holder TEXT NOT NULL,
    held_until_ms INTEGER NOT NULL
  ) STRICT;
  PRAGMA application_id = ${applicationId};
  PRAGMA user_version = ${schemaVersion};
`;

/** The write-ahead log is truncated to this after a checkpoint. */
const maxLogBytes = 4 * 1024 * 1024;

/** Removing a little more than necessary makes room for some time. */
const keptShare = 0.9;

type Opened = { readonly db: DatabaseSync; readonly query: Query };

/** The journal in a file of its own. It is replaced if it is damaged, since it is not worth more than the service. */
export class JournalDatabase implements JournalStore {
  readonly #path: string;
  readonly #onReplaced: (reason: string) => void;
  #opened: Opened | undefined;

  constructor(path: string, onReplaced: (reason: string) => void) {
    this.#path = path;
    this.#onReplaced = onReplaced;
  }

  readonly append: JournalStore["append"] = (entries) =>
    this.#run(({ db, query }) => inTransaction(db, () => appendEvents(query, entries)));
  readonly list: JournalStore["list"] = (page) => this.#run(({ query }) => listEvents(query, page));
  readonly lastSeq: JournalStore["lastSeq"] = (runtime) => this.#run(({ query }) => findLastSeq(query, runtime));
  readonly read: JournalStore["read"] = (reading) => this.#run(({ query }) => readOn(query, reading));
  readonly claimCursor: JournalStore["claimCursor"] = (claim) =>
    this.#run(({ query }) => claimCursor(query, claim, async () => String(await findNewestSeq(query))));
  readonly moveCursor: JournalStore["moveCursor"] = (move) => this.#run(({ query }) => moveCursor(query, move));

  readonly prune: JournalStore["prune"] = ({ maxBytes, fromMs }) =>
    this.#run(async ({ db, query }) => {
      let total = await removeOlder(query, fromMs);
      if (usedBytes(db) > maxBytes) {
        for (let removed = 1; removed > 0 && usedBytes(db) > keptShare * maxBytes; total += removed) {
          removed = await removeOldest(query);
        }
      }
      if (total > 0) {
        db.exec("PRAGMA incremental_vacuum");
      }
      return total;
    });

  [Symbol.dispose](): void {
    this.#opened?.db.close();
    this.#opened = undefined;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this[Symbol.dispose]();
  }

  /** Runs the operation; if the file is damaged, once more with a new one. */
  async #run<T>(operation: (opened: Opened) => Promise<T>): Promise<T> {
    try {
      return await operation((this.#opened ??= open(this.#path)));
    } catch (error) {
      if (!isDamaged(error) && !(error instanceof OtherFile)) {
        throw error;
      }
      this.#replace((error as Error).message);
      return operation((this.#opened ??= open(this.#path)));
    }
  }

  #replace(reason: string): void {
    this[Symbol.dispose]();
    for (const suffix of ["", "-wal", "-shm"]) {
      rmSync(`${this.#path}${suffix}`, { force: true });
    }
    this.#onReplaced(reason);
  }
}

/** The file has another schema. */
class OtherFile extends Error {}

function open(path: string): Opened {
  createPrivateFile(path);
  const db = new DatabaseSync(path, { timeout: lockTimeoutMs.thread });
  try {
    const isNew = readPragma(db, "schema_version") === 0;
    if (
      !isNew &&
      (readPragma(db, "application_id") !== applicationId || readPragma(db, "user_version") !== schemaVersion)
    ) {
      throw new OtherFile("it is not a journal of this version");
    }
    // Not on the disk at once, since a failure of the machine may cost the last events.
    db.exec(`
      PRAGMA auto_vacuum = INCREMENTAL;
      PRAGMA journal_mode = WAL;
      PRAGMA synchronous = NORMAL;
      PRAGMA journal_size_limit = ${maxLogBytes};
    `);
    if (isNew) {
      inSyncTransaction(db, () => db.exec(schema));
    }
    return { db, query: queryOf(db) };
  } catch (error) {
    db.close();
    throw error;
  }
}

/** The only process that records has entries in the order of their sequence numbers, which are the positions. */
async function readOn(
  query: Query,
  { after, limit, kinds, maxLevel }: Parameters<JournalStore["read"]>[0],
): ReturnType<JournalStore["read"]> {
  const newest = await findNewestSeq(query);
  const afterSeq = Number(after);
  const page = await listEvents(query, { order: "oldest", limit, afterSeq, kinds, maxLevel });
  const entries = page.entries.map((entry) => ({ ...entry, position: String(entry.seq) }));
  const endSeq = page.next?.seq ?? Math.max(afterSeq, newest, entries.at(-1)?.seq ?? 0);
  return { entries, position: String(endSeq) };
}

async function findNewestSeq(query: Query): Promise<number> {
  const [row] = await query<{ seq: number }>("SELECT seq FROM flowgate.event ORDER BY seq DESC LIMIT 1");
  return row?.seq ?? 0;
}

/** Returns the size of the entries, without free pages. */
function usedBytes(db: DatabaseSync): number {
  return (readPragma(db, "page_count") - readPragma(db, "freelist_count")) * readPragma(db, "page_size");
}

function readPragma(db: DatabaseSync, name: string): number {
  return Number(Object.values(db.prepare(`PRAGMA ${name}`).get() ?? {})[0]);
}
