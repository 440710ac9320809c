// The thread that writes to the database, since a transaction blocks until it is on the disk.
import { workerData } from "node:worker_threads";
import { serveThread } from "../../base/thread.ts";
import { isInDoubt, storageFailure } from "./errors.ts";
import { auditWrites } from "./audit-writes.ts";
import { connectThread } from "./database.ts";
import { loginWrites } from "./login-writes.ts";
import { revisionWrites } from "./revision-writes.ts";
import { tokenWrites } from "./token-writes.ts";
import type { WriteCall, Writes } from "./writer.ts";

export type WriteThreadData = { readonly path: string };

const { path } = workerData as WriteThreadData;
const db = connectThread(path);
const writes: Writes = { ...revisionWrites(db), ...tokenWrites(db), ...auditWrites(db), ...loginWrites(db) };

function write({ operation, argument }: WriteCall): unknown {
  if (!db.isOpen) {
    throw storageFailure();
  }
  try {
    return (writes[operation] as (argument: unknown) => unknown)(argument);
  } catch (error) {
    // Until the log is read again, nothing may be written after what has failed.
    if (isInDoubt(error)) {
      db.close();
    }
    throw error;
  }
}

serveThread<WriteCall, unknown>(
  (call) => ({ reply: write(call) }),
  () => {
    if (db.isOpen) {
      db.close();
    }
  },
);
