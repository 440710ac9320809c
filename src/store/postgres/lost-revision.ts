import { rootDraft, toCommitCall } from "../commit-row.ts";
import type { RevisionDraft } from "../flow-store.ts";
import type { Revision } from "../revision.ts";
import type { Changes } from "./changes.ts";
import type { Database } from "./database.ts";
import type { Query } from "./query.ts";
import { readExistingRevision } from "./read-revision.ts";
import { commitRevision } from "./revision-writes.ts";

/** Whether the database no longer has a revision, because a standby was promoted before it had received it. */
export async function isLost(query: Query, rev: string): Promise<boolean> {
  const [row] = await query("SELECT FROM flowgate.revision WHERE rev = $1", [rev]);
  return row === undefined;
}

/**
 * Commits the revision `newestRev` once more, with a higher sequence number than `lost`, by which all replicas and runtimes
 * recognize it as newer. Resolves with undefined if another replica has done that.
 */
export async function replaceLost(
  database: Database,
  changes: Changes,
  { lost, newestRev, key }: { readonly lost: Revision; readonly newestRev: string; readonly key: Buffer },
): Promise<Revision | undefined> {
  const newest = await readExistingRevision(database.query, newestRev, key);
  const draft: RevisionDraft = {
    ...rootDraft,
    parent: newest.rev,
    cause: "restore",
    restoredRev: newest.rev,
    flows: newest.flows,
    credentials: newest.credentials,
    message: `the database lost revision ${lost.rev} when a standby was promoted`,
  };
  const call = await toCommitCall(draft, key);
  const reply = await commitRevision(database, changes, call, lost.seq + 1);
  return reply.kind === "committed" ? readExistingRevision(database.query, call.rev, key) : undefined;
}
