// The thread that writes revisions, since a commit blocks until it is on the disk.
import { workerData } from "node:worker_threads";
import { serveThread } from "../../thread.ts";
import { connectThread } from "./connect.ts";
import { insertRevision, type RevisionRow, selectNewest } from "./revision-row.ts";
import { inTransaction } from "./transaction.ts";

export type CommitData = { readonly path: string };

/** A revision without the values that are assigned when it is written. */
export type CommitCall = Omit<RevisionRow, "seq" | "committed_at_ms">;

/** Undefined if the parent is not the newest revision. */
export type CommitReply = Pick<RevisionRow, "seq" | "committed_at_ms"> | undefined;

const { path } = workerData as CommitData;
const db = connectThread(path);

serveThread<CommitCall, CommitReply>(
  (draft) =>
    inTransaction(db, () => {
      const newest = selectNewest(db);
      if (newest?.rev !== draft.parent) {
        return { reply: undefined };
      }
      const written = { seq: newest.seq + 1, committed_at_ms: Date.now() };
      insertRevision(db, { ...draft, ...written });
      return { reply: written };
    }),
  () => db.close(),
);
