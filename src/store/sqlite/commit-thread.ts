// The thread that writes, since a write blocks until it is on the disk.
import { workerData } from "node:worker_threads";
import { serveThread } from "../../thread.ts";
import type { Origin } from "../store.ts";
import { appendAudit } from "./audit-log.ts";
import { connectThread } from "./connect.ts";
import { insertRevision, type RevisionRow, selectNewest } from "./revision-row.ts";
import { inTransaction } from "./transaction.ts";
import { runWrite, type Write, type WriteReply } from "./writes.ts";

export type CommitData = { readonly path: string };

/** A revision without the values that are assigned when it is written. */
export type CommitCall = Omit<RevisionRow, "seq" | "committed_at_ms"> & { origin: Origin };

/** Undefined if the parent is not the newest revision. */
export type CommitReply = Pick<RevisionRow, "seq" | "committed_at_ms"> | undefined;

const { path } = workerData as CommitData;
const db = connectThread(path);

serveThread<CommitCall | Write, CommitReply | WriteReply>(
  (call) => ({ reply: "write" in call ? runWrite(db, call) : commit(call) }),
  () => db.close(),
);

function commit({ origin, ...draft }: CommitCall): CommitReply {
  return inTransaction(db, () => {
    const newest = selectNewest(db);
    if (newest?.rev !== draft.parent) {
      return undefined;
    }
    const written = { seq: newest.seq + 1, committed_at_ms: Date.now() };
    insertRevision(db, { ...draft, ...written });
    appendAudit(db, { kind: "deployment", origin, subject: draft.rev, detail: draft.deployment_type });
    return written;
  });
}
