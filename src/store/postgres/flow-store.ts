import type { CredentialKeys } from "../credential-keys.ts";
import {
  commitInDoubt,
  type FlowStore,
  proposalClosed,
  RepeatedRequest,
  type RevisionDraft,
  versionMismatch,
} from "../flow-store.ts";
import type { Revision } from "../revision.ts";
import type { Query } from "../sql/query.ts";
import { LaterWrites } from "../node-credentials.ts";
import { assertCurrentKey, writeSealed } from "../sql/key-state.ts";
import { findModules } from "../sql/modules.ts";
import { WrittenCredentials, writeCredentials } from "../sql/node-credentials.ts";
import { type AssignedColumns, type CommitCall, rootDraft, toCommitCall, toCommitted } from "../sql/revision-row.ts";
import {
  ActiveRevision,
  commitRevision,
  type CommitReply,
  insertRoot,
  type Newest,
  readRevision,
} from "../sql/revisions.ts";
import { type Access, createCredentialWriting, createHistory } from "../sql/stores.ts";
import { type ChangeCounts, type Changes, readCounts } from "./changes.ts";
import { type Database, InDoubt } from "./database.ts";

/** Inserts the first revision, without flows, if there is none. */
export async function ensureRoot(database: Database, keys: CredentialKeys): Promise<void> {
  const rows = await database.query("SELECT FROM flowgate.revision LIMIT 1");
  if (rows.length === 0) {
    const call = await toCommitCall(rootDraft, keys.configured());
    await database.transaction((query) => insertRoot(query, call));
  }
}

/** `keys` encrypt credentials. */
export async function createFlowStore(
  database: Database,
  access: Access,
  changes: Changes,
  keys: CredentialKeys,
): Promise<FlowStore> {
  // Read here, so that a wrong key or a damaged document is an error at the start.
  const newest = await readRevision(database.query, changes.latest().rev, keys);
  const written = await new WrittenCredentials().read(database.query, keys);
  const revisions = new SharedRevisions(database, changes, keys, new ActiveRevision(newest, written));
  changes.onChange((counts) => revisions.follow(counts));
  return {
    ...createHistory(access, revisions.active, keys),
    commit: (draft, signal) => revisions.commit(draft, signal),
    reload: () => revisions.reload(),
    writeCredentials: createCredentialWriting({
      active: revisions.active,
      keys,
      write: (call, keyId) =>
        database.transaction(async (query) => {
          await assertCurrentKey(query, keyId);
          const reply = await writeCredentials(query, call);
          await changes.announce(query);
          return reply;
        }),
      catchUp: () => changes.refresh(),
      refresh: () => revisions.readWritten(),
    }),
    catchUp: () => changes.refresh(),
  };
}

/** Revisions that several replicas commit. */
class SharedRevisions {
  readonly active: ActiveRevision;
  readonly #database: Database;
  readonly #query: Query;
  readonly #changes: Changes;
  readonly #keys: CredentialKeys;
  #reloads: number;
  /** True if credentials written by nodes must be read again. */
  #isWrittenOutdated = false;
  readonly #commits = new Set<Promise<unknown>>();

  constructor(database: Database, changes: Changes, keys: CredentialKeys, active: ActiveRevision) {
    this.active = active;
    this.#database = database;
    this.#query = database.query;
    this.#changes = changes;
    this.#keys = keys;
    this.#reloads = changes.latest().reloads;
  }

  /** Activates what other replicas have committed. */
  async follow(counts: ChangeCounts): Promise<void> {
    // A commit of this store activates its own revision. Another replica's may be newer.
    await Promise.allSettled(this.#commits);
    const active = this.active.get();
    // A commit of another replica can also change them.
    if (
      this.#isWrittenOutdated ||
      counts.rev !== active.rev ||
      (counts.credentialSeq ?? 0) !== this.active.written.seq
    ) {
      await this.readWritten();
    }
    if (counts.seq > active.seq) {
      this.active.activate(await this.#read(counts.rev), false);
    } else if (counts.rev !== active.rev && (await this.#isLost(active.rev))) {
      await this.#replaceLost(active, counts.rev);
    }
    // Counts from before a reload by this store may arrive after it.
    if (counts.reloads > this.#reloads) {
      this.#reloads = counts.reloads;
      this.active.reportReload();
    }
  }

  async commit(draft: RevisionDraft, signal: AbortSignal | undefined): Promise<Revision> {
    if (draft.parent !== this.active.get().rev) {
      // Another replica may have committed it. If not, this saves the compression for most mismatches.
      await this.#changes.refresh();
      if (draft.parent !== this.active.get().rev && draft.idempotencyKey === undefined) {
        throw versionMismatch(this.active.get().rev);
      }
    }
    const reply = await writeSealed(
      this.#keys,
      (key) => toCommitCall(draft, key),
      (call, keyId) => {
        signal?.throwIfAborted();
        const committing = this.#commitOwn(draft, call, keyId);
        this.#commits.add(committing);
        return committing.finally(() => this.#commits.delete(committing));
      },
    );
    switch (reply.kind) {
      case "committed":
        return reply.revision;
      case "mismatch":
        return this.#rejectMismatch(reply.newest);
      case "repeated":
        throw new RepeatedRequest(reply.rev, reply.fingerprint);
      case "closed":
        throw proposalClosed();
      case "outdated":
        await this.readWritten();
        throw new LaterWrites();
    }
  }

  async readWritten(): Promise<void> {
    this.#isWrittenOutdated = true;
    this.active.written = await this.active.written.read(this.#query, this.#keys);
    this.#isWrittenOutdated = false;
  }

  async reload(): Promise<Revision> {
    const { rev } = await readCounts(this.#query);
    const revision = await this.#read(rev);
    await this.#database.transaction(async (query) => {
      const [row] = await query<{ reloads: number }>(
        "UPDATE flowgate.change SET reloads = reloads + 1 RETURNING reloads",
      );
      // Not reported to the listeners of this store, which restarts its nodes itself.
      this.#reloads = Math.max(this.#reloads, row?.reloads ?? 0);
      await this.#changes.announce(query);
    });
    await this.readWritten();
    this.active.activate(revision, false);
    // A new object.
    return this.active.written.applyTo(revision);
  }

  async #read(rev: string): Promise<Revision> {
    return readRevision(this.#query, rev, this.#keys);
  }

  async #commitOwn(draft: RevisionDraft, call: CommitCall, keyId: string) {
    const reply = await this.#write(call, keyId);
    if (reply.kind !== "committed") {
      return reply;
    }
    // It is committed even if the database fails now. The writes are then read with the next change.
    await this.readWritten().catch(() => {});
    return { kind: reply.kind, revision: this.active.activate(toCommitted(draft, call, reply), true, draft.message) };
  }

  /** If the connection fails during the commit, only the database shows whether it was committed. */
  async #write(call: CommitCall, keyId: string, minSeq = 0): Promise<CommitReply> {
    try {
      return await this.#database.transaction(async (query) => {
        await assertCurrentKey(query, keyId);
        const reply = await commitRevision(query, call, minSeq);
        if (reply.kind === "committed") {
          await this.#changes.announce(query);
        }
        return reply;
      });
    } catch (error) {
      if (!(error instanceof InDoubt)) {
        throw error;
      }
      // Written once more: this waits for the standby, if replication is synchronous, for which the first commit may not have waited.
      const text = "UPDATE flowgate.revision SET cause = cause WHERE rev = $1 RETURNING seq, committed_at_ms";
      const [row] = await this.#database
        .transaction((query) => query<AssignedColumns>(text, [call.rev]))
        .catch(() => []);
      if (row === undefined) {
        throw commitInDoubt();
      }
      return { kind: "committed", ...row };
    }
  }

  async #rejectMismatch(newest: Newest): Promise<never> {
    // At once, since a caller who tries again competes with callers who have read it already.
    if (newest.seq > this.active.get().seq) {
      this.active.activate(await this.#read(newest.rev), false);
    } else {
      await this.#changes.refresh();
    }
    throw versionMismatch(this.active.get().rev);
  }

  /** True if the database no longer has a revision, because a standby was promoted before it had received it. */
  async #isLost(rev: string): Promise<boolean> {
    const rows = await this.#query("SELECT FROM flowgate.revision WHERE rev = $1", [rev]);
    return rows.length === 0;
  }

  /**
   * Commits the revision `newestRev` once more, with a higher sequence number than `lost`, by which all replicas and runtimes
   * recognize it as newer. If another replica has done that, the next read notices its commit.
   */
  async #replaceLost(lost: Revision, newestRev: string): Promise<void> {
    const { rev, flows, credentials, writtenSeq = 0 } = this.active.written.applyTo(await this.#read(newestRev));
    const draft: RevisionDraft = {
      ...rootDraft,
      parent: rev,
      cause: "restore",
      restoredRev: rev,
      flows,
      credentials,
      writes: { seq: writtenSeq, submitted: new Set(), claimed: [], replacesLater: true },
      modules: await findModules(this.#query, rev),
      message: `the database lost revision ${lost.rev} when a standby was promoted`,
    };
    const { call, reply } = await writeSealed(
      this.#keys,
      (key) => toCommitCall(draft, key),
      async (call, keyId) => ({ call, reply: await this.#write(call, keyId, lost.seq + 1) }),
    );
    if (reply.kind === "committed") {
      this.active.activate(await this.#read(call.rev), false);
    }
  }
}
