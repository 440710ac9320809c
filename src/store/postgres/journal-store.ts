import type { Client } from "pg";
import type { JournalStore } from "../journal-store.ts";
import {
  appendEvents,
  claimCursor,
  entryColumns,
  type EventRow,
  findLastSeq,
  listEvents,
  moveCursor,
  removeOlder,
  toEntry,
  toEntryCondition,
} from "../sql/journal.ts";
import { type Query, toCondition } from "../sql/query.ts";
import { type Database, queryOf, repeatOnce } from "./database.ts";
import { classify, toFlowgateError } from "./errors.ts";

/** The size of a row without its data. */
const rowBytes = 200;

/** One replica at a time removes entries. "FLGJ". */
const pruneLock = 0x464c474a;

/** The journal of all replicas, over a connection of its own, for which no deployment waits. It is opened by the first call. */
export class PostgresJournal implements JournalStore {
  readonly #database: Pick<Database, "connect">;
  #client: Client | undefined;
  #queue: Promise<unknown> = Promise.resolve();

  constructor(database: Pick<Database, "connect">) {
    this.#database = database;
  }

  readonly append: JournalStore["append"] = (entries) =>
    this.#run(async (query) => {
      await query("BEGIN");
      try {
        await appendEvents(query, entries);
        await query("COMMIT");
      } catch (error) {
        await query("ROLLBACK").catch(() => {});
        throw error;
      }
    });

  readonly list: JournalStore["list"] = (page) => this.#run((query) => listEvents(query, page));
  readonly lastSeq: JournalStore["lastSeq"] = (runtime) => this.#run((query) => findLastSeq(query, runtime));
  readonly read: JournalStore["read"] = (reading) => this.#run((query) => readOn(query, reading));
  readonly claimCursor: JournalStore["claimCursor"] = (claim) =>
    this.#run((query) => claimCursor(query, claim, async () => (await findNewest(query)) ?? firstPosition));
  readonly moveCursor: JournalStore["moveCursor"] = (move) => this.#run((query) => moveCursor(query, move));

  readonly prune: JournalStore["prune"] = ({ maxBytes, fromMs }) =>
    this.#run(async (query) => {
      const [lock] = await query<{ held: boolean }>("SELECT pg_try_advisory_lock($1) AS held", [pruneLock]);
      if (lock?.held !== true) {
        return 0;
      }
      try {
        return (await removeOlder(query, fromMs)) + (await removeBeyond(query, maxBytes));
      } finally {
        await query("SELECT pg_advisory_unlock($1)", [pruneLock]);
      }
    });

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#queue;
    await this.#close();
  }

  /** Runs one operation after another. One whose connection fails is repeated once, on a new connection. */
  #run<T>(operation: (query: Query) => Promise<T>): Promise<T> {
    return repeatOnce(() => this.#runOnce(operation)).catch((error: unknown) => {
      throw toFlowgateError(error);
    });
  }

  #runOnce<T>(operation: (query: Query) => Promise<T>): Promise<T> {
    const result = this.#queue.then(async () => {
      const client = await this.#connect();
      try {
        return await operation(queryOf(client));
      } catch (error) {
        if (classify(error) === "connection") {
          await this.#close();
        }
        throw error;
      }
    });
    this.#queue = result.catch(() => {});
    return result;
  }

  async #connect(): Promise<Client> {
    this.#client ??= await this.#database.connect();
    return this.#client;
  }

  async #close(): Promise<void> {
    const client = this.#client;
    this.#client = undefined;
    await client?.end().catch(() => {});
  }
}

/** `xid seq runtime`, in which order the rows are read. */
const position = "xid::text || ' ' || seq || ' ' || runtime";

/** Before all rows. */
const firstPosition = "0 0 ";

/** The last row before which no commit can follow; undefined if there is none. */
async function findNewest(query: Query): Promise<string | undefined> {
  const [row] = await query<{ position: string }>(
    `SELECT ${position} AS position FROM flowgate.event WHERE xid < pg_snapshot_xmin(pg_current_snapshot())
     ORDER BY xid DESC, seq DESC, runtime DESC LIMIT 1`,
  );
  return row?.position;
}

async function readOn(
  query: Query,
  { after, limit, kinds, maxLevel }: Parameters<JournalStore["read"]>[0],
): ReturnType<JournalStore["read"]> {
  const newest = await findNewest(query);
  if (newest === undefined || kinds.length === 0) {
    return { entries: [], position: newest ?? after };
  }
  const { condition, values } = toCondition([
    ["(xid, seq, runtime) >", parsePosition(after)],
    ["(xid, seq, runtime) <=", parsePosition(newest)],
    ...toEntryCondition({ kinds, maxLevel }),
  ]);
  const rows = await query<EventRow & { readonly position: string }>(
    `SELECT ${entryColumns}, ${position} AS position FROM flowgate.event WHERE ${condition}
     ORDER BY xid, seq, runtime LIMIT $${values.push(limit)}`,
    values,
  );
  const entries = rows.map((row) => toEntry(row));
  return { entries, position: entries.length < limit ? newest : (entries.at(-1)?.position ?? after) };
}

function parsePosition(text: string): [xid: string, seq: string, runtime: string] {
  const [, xid = "0", seq = "0", runtime = ""] = /^(\d+) (\d+) (.*)$/s.exec(text) ?? [];
  return [xid, seq, runtime];
}

/** Removes the oldest entries beyond a size. Resolves with their number. */
async function removeBeyond(query: Query, maxBytes: number): Promise<number> {
  const removed = await query(
    `DELETE FROM flowgate.event WHERE seq <=
       (SELECT max(seq) FROM
         (SELECT seq, sum(octet_length(data) + ${rowBytes}) OVER (ORDER BY seq DESC, runtime DESC) AS total
          FROM flowgate.event) AS sized
        WHERE total > $1)
     RETURNING seq`,
    [maxBytes],
  );
  return removed.length;
}
