// The thread that writes to the database, since a transaction blocks until it is on the disk.
import { workerData } from "node:worker_threads";
import { serveThread } from "../../thread.ts";
import { auditWrites } from "./audit-writes.ts";
import { connectThread } from "./connect.ts";
import { loginWrites } from "./login-writes.ts";
import { revisionWrites } from "./revision-writes.ts";
import { tokenWrites } from "./token-writes.ts";
import type { WriteCall, Writes } from "./writer.ts";

export type WriteThreadData = { readonly path: string };

const { path } = workerData as WriteThreadData;
const db = connectThread(path);
const writes: Writes = { ...revisionWrites(db), ...tokenWrites(db), ...auditWrites(db), ...loginWrites(db) };

serveThread<WriteCall, unknown>(
  ({ operation, argument }) => ({ reply: (writes[operation] as (argument: unknown) => unknown)(argument) }),
  () => db.close(),
);
