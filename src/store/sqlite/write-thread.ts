// The thread that writes to the database, since a transaction blocks until it is on the disk.
import { workerData } from "node:worker_threads";
import { serveThread } from "@flowgate/base/thread";
import type { Query } from "../sql/query.ts";
import { assertCurrentKey } from "../sql/key-state.ts";
import { writes } from "../sql/stores.ts";
import { connectThread, inTransaction, queryOf } from "./connection.ts";
import { freeSpace } from "./database.ts";
import { isInDoubt, storageFailure } from "./errors.ts";
import { loginWrites } from "./login-attempts.ts";

export type WriteThreadData = { readonly path: string };

const operations = { ...writes, ...loginWrites };

/** The operations of the thread. Each is one transaction. */
export type ThreadWrites = typeof operations;

export type WriteCall = {
  readonly name: keyof ThreadWrites;
  readonly argument: unknown;
  readonly keyId: string | undefined;
};

const { path } = workerData as WriteThreadData;
const db = connectThread(path);
const query = queryOf(db);

async function write({ name, argument, keyId }: WriteCall): Promise<unknown> {
  if (!db.isOpen) {
    throw storageFailure();
  }
  const operation = operations[name] as (query: Query, argument: unknown) => Promise<unknown>;
  try {
    const result = await inTransaction(db, async () => {
      if (keyId !== undefined) {
        await assertCurrentKey(query, keyId);
      }
      return operation(query, argument);
    });
    if (name === "prune") {
      freeSpace(db);
    }
    return result;
  } catch (error) {
    // Until the log is read again, nothing may be written after the failed write.
    if (isInDoubt(error)) {
      db.close();
    }
    throw error;
  }
}

serveThread<WriteCall, unknown>(
  async (call) => ({ reply: await write(call) }),
  () => {
    if (db.isOpen) {
      db.close();
    }
  },
);
