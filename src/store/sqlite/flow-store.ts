import type { CredentialKeys } from "../credential-keys.ts";
import { type FlowStore, proposalClosed, RepeatedRequest, versionMismatch } from "../flow-store.ts";
import { LaterWrites } from "../node-credentials.ts";
import { writeSealed } from "../sql/key-state.ts";
import { WrittenCredentials } from "../sql/node-credentials.ts";
import { type CommitCall, rootDraft, toCommitCall, toCommitted } from "../sql/revision-row.ts";
import { ActiveRevision, type CommitReply, findNewest, readRevision } from "../sql/revisions.ts";
import { type Access, createCredentialWriting, createHistory } from "../sql/stores.ts";

/** `keys` encrypt credentials. The caller must keep the database open until all promises of the store have settled. */
export async function createFlowStore({ query, write }: Access, keys: CredentialKeys): Promise<FlowStore> {
  const newestRev = async (): Promise<string> => (await findNewest(query))?.rev ?? "";
  const readNewest = async () => readRevision(query, await newestRev(), keys);

  if ((await findNewest(query)) === undefined) {
    await write("insertRoot", await toCommitCall(rootDraft, keys.current()));
  }
  // Kept in memory: the directory is locked, so that only this process writes.
  // Read here, so that a wrong key or a damaged document is an error at the start.
  const active = new ActiveRevision(await readNewest(), await new WrittenCredentials().read(query, keys));

  async function refresh(): Promise<void> {
    active.written = await active.written.read(query, keys);
  }

  /** If the thread exits without a reply, the revision may have been written, and only the database shows whether it was. */
  async function writeCommit(call: CommitCall, keyId: string): Promise<CommitReply> {
    try {
      return await write("commit", call, keyId);
    } catch (error) {
      const newest = await findNewest(query);
      if (newest?.rev === call.rev) {
        return { kind: "committed", ...newest };
      }
      throw error;
    }
  }

  /** Reads the active revision first, since a process that ignores the lock may have written it. */
  async function rejectMismatch(): Promise<never> {
    if ((await newestRev()) !== active.get().rev) {
      active.activate(await readNewest(), false);
    }
    throw versionMismatch(active.get().rev);
  }

  return {
    ...createHistory({ query, write }, active, keys),

    async commit(draft, signal) {
      // The thread checks that too; for most mismatches, this saves the compression.
      if (draft.idempotencyKey === undefined && draft.parent !== (await newestRev())) {
        return rejectMismatch();
      }
      const { call, reply } = await writeSealed(
        keys,
        (key) => toCommitCall(draft, key),
        async (call, keyId) => {
          signal?.throwIfAborted();
          return { call, reply: await writeCommit(call, keyId) };
        },
      );
      switch (reply.kind) {
        case "committed":
          await refresh();
          return active.activate(toCommitted(draft, call, reply), true, draft.message);
        case "mismatch":
          return rejectMismatch();
        case "repeated":
          throw new RepeatedRequest(reply.rev, reply.fingerprint);
        case "closed":
          throw proposalClosed();
        case "outdated":
          await refresh();
          throw new LaterWrites();
      }
    },

    async reload() {
      const revision = await readNewest();
      await refresh();
      active.activate(revision, false);
      // A new object.
      return active.written.applyTo(revision);
    },

    writeCredentials: createCredentialWriting({
      active,
      keys,
      write: (call, keyId) => write("writeCredentials", call, keyId),
      catchUp: async () => active.activate(await readNewest(), false),
      refresh,
    }),

    // Only this process commits.
    async catchUp() {},
  };
}
