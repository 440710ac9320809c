import type { Client } from "pg";
import type { JournalStore } from "../journal-store.ts";
import { appendEvents, findLastSeq, listEvents, removeOlder } from "../sql/journal.ts";
import type { Query } from "../sql/query.ts";
import { type Database, queryOf } from "./database.ts";
import { classify } from "./errors.ts";

/** What a row takes besides its data. */
const rowBytes = 200;

/** One replica at a time removes entries. "FLGJ". */
const pruneLock = 0x464c474a;

/** The journal of all replicas, over a connection of its own, for which no deployment waits. It is opened by the first call. */
export class PostgresJournal implements JournalStore {
  readonly #database: Pick<Database, "connect">;
  #client: Promise<Client> | undefined;
  #queue: Promise<unknown> = Promise.resolve();

  constructor(database: Pick<Database, "connect">) {
    this.#database = database;
  }

  append(entries: Parameters<JournalStore["append"]>[0]): Promise<void> {
    return this.#run(async (query) => {
      await query("BEGIN");
      try {
        await appendEvents(query, entries);
        await query("COMMIT");
      } catch (error) {
        await query("ROLLBACK").catch(() => {});
        throw error;
      }
    });
  }

  list(page: Parameters<JournalStore["list"]>[0]): ReturnType<JournalStore["list"]> {
    return this.#run((query) => listEvents(query, page));
  }

  lastSeq(runtime: string): Promise<number> {
    return this.#run((query) => findLastSeq(query, runtime));
  }

  prune({ maxBytes, fromMs }: Parameters<JournalStore["prune"]>[0]): Promise<number> {
    return this.#run(async (query) => {
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
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#queue;
    await this.#close();
  }

  /** Runs one operation after another. One whose connection fails is repeated once, on a new connection. */
  async #run<T>(operation: (query: Query) => Promise<T>): Promise<T> {
    try {
      return await this.#runOnce(operation);
    } catch (error) {
      if (classify(error) !== "connection") {
        throw error;
      }
    }
    return this.#runOnce(operation);
  }

  #runOnce<T>(operation: (query: Query) => Promise<T>): Promise<T> {
    const result = this.#queue.then(async () => {
      this.#client ??= this.#database.connect();
      try {
        return await operation(queryOf(await this.#client));
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

  async #close(): Promise<void> {
    const client = this.#client;
    this.#client = undefined;
    await client?.then((each) => each.end()).catch(() => {});
  }
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
