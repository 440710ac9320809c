import type { CredentialSets, DeploymentType } from "@flowgate/flows";
import type { AuditRecord, Origin } from "./audit-store.ts";
import type { RevisionModule } from "./module-store.ts";
import type { CredentialWrite, CredentialWriteResult, DraftWrites } from "./node-credentials.ts";
import type { ErrorLimit, Revision, RevisionEntry, RevisionOutcome, RevisionState } from "./revision.ts";
import { FlowgateError } from "@flowgate/flows/errors";

/** Identifies the request that made a revision, so that repeating the request does not make another one. */
type IdempotencyKey = {
  /** Chosen by the client; the keys of each user are separate. */
  readonly key: string;
  readonly fingerprint: Uint8Array;
};

export type Approval = {
  readonly proposalId: string;
  /** The digest of the proposal. */
  readonly digest: string;
  readonly origin: Origin;
  readonly reason: string | undefined;
};

/** A deployment to commit. `flows.json` is stored unchanged, and `flows.nodes` is not read. */
export type RevisionDraft = Origin &
  Pick<Revision, "deploymentType" | "cause" | "restoredRev" | "flows" | "credentials" | "kept"> &
  Pick<RevisionState, "message" | "probationMs"> & {
    /** The `rev` of the revision that this one replaces. */
    readonly parent: string;
    readonly errorLimit?: ErrorLimit | undefined;
    /** The approval of a proposal, which the commit closes. */
    readonly approval?: Approval | undefined;
    /** The protected parts of the flows that are changed without the approval that they require. */
    readonly unapproved?: string | undefined;
    /** Undefined: they are not known. */
    readonly modules?: readonly RevisionModule[] | undefined;
    /** Undefined: nodes have written nothing. */
    readonly writes?: DraftWrites | undefined;
    readonly idempotencyKey: IdempotencyKey | undefined;
  };

export type RevisionFilter = {
  readonly by?: string | undefined;
  readonly deploymentType?: DeploymentType | undefined;
  readonly outcome?: RevisionOutcome["state"] | undefined;
  readonly pinned?: boolean | undefined;
  /** Inclusive. */
  readonly fromMs?: number | undefined;
  /** Exclusive. */
  readonly untilMs?: number | undefined;
};

export type RevisionPage = {
  readonly revisions: readonly RevisionEntry[];
  /** The cursor of the next page; undefined on the last one. */
  readonly next: number | undefined;
};

/** The limits of kept revisions: `prune` removes revisions that exceed one of them. */
export type Retention = {
  readonly maxCount: number;
  /** Undefined: there is no limit. */
  readonly maxAgeMs: number | undefined;
};

export type RevisionEvent = {
  readonly revision: Revision;
  /** True if it was committed through this store object. */
  readonly isOwn: boolean;
  /** The comment of a revision that was committed through this store object. */
  readonly message?: string | undefined;
  /** True if another process has called `reload`, which restarts all nodes of an unchanged revision. */
  readonly isReload?: boolean | undefined;
};

/**
 * Stores the revisions of the flows.
 *
 * - A new store contains one revision without flows.
 * - `commit` is atomic, and durable before it resolves. Of two drafts with the same parent exactly one is committed, also
 *   across processes. The other rejects with `version_mismatch`, whose message names the active revision, and `active`
 *   then returns that revision.
 * - Of two drafts with the same user and idempotency key exactly one is committed within a day. The other rejects with
 *   a `RepeatedRequest`, whatever its parent is.
 * - A commit with an approval closes the proposal in its transaction. It rejects with `proposal_closed`, and commits nothing, if the
 *   proposal does not exist, was closed before or has expired.
 * - A commit whose signal is aborted before the write begins rejects with the signal's reason and changes nothing. After
 *   that the signal has no effect.
 * - A commit writes its audit entry in the same transaction.
 * - What a node has written as its credentials replaces those of revisions that were committed before, whose nodes with this id have the
 *   same type: also what `find` returns of them. A commit that `writes` does not permit to replace later writes rejects with `LaterWrites`,
 *   and `active` then returns the revision with these.
 * - Credentials are encrypted at rest.
 * - Only `prune` removes revisions.
 */
export interface FlowStore {
  /**
   * Returns the newest known revision from memory, the same object until there is a newer one or its nodes write credentials. Revisions
   * that another process commits become active when the store has read them.
   */
  active(): Revision;
  /** Resolves with undefined if there is no such revision. */
  find(rev: string): Promise<Revision | undefined>;
  /**
   * Reads the credentials of a revision without its flows. Resolves with undefined if there is no such revision. Later
   * writes are considered for the nodes in `types`.
   */
  findCredentials(rev: string, types?: ReadonlyMap<string, string>): Promise<CredentialSets | undefined>;
  /**
   * Stores credentials written by nodes, by node id. Resolves with undefined if the lease has another holder by now.
   */
  writeCredentials(write: CredentialWrite): Promise<ReadonlyMap<string, CredentialWriteResult> | undefined>;
  /** Returns the credentials written for nodes that are not deployed yet. */
  unclaimedCredentials(): CredentialSets;
  /** Finds a revision without reading its flows and credentials. */
  findEntry(rev: string): Promise<RevisionEntry | undefined>;
  /**
   * Lists at most `limit` revisions, newest first. `before` is the cursor of the previous page. Commits between two pages
   * neither repeat nor omit a revision.
   */
  list(page: {
    readonly limit: number;
    readonly before?: number | undefined;
    readonly filter?: RevisionFilter | undefined;
  }): Promise<RevisionPage>;
  commit(draft: RevisionDraft, signal?: AbortSignal): Promise<Revision>;
  /** Resolves with the error of a commit with this user and idempotency key; undefined: the key was not used within a day. */
  findRepeated(by: string | undefined, key: string): Promise<RepeatedRequest | undefined>;
  /**
   * Changes the given properties, durably, adds `restarts` to the current number, and writes the audit entry in the
   * same transaction. The outcome `undone`, which the commit of an undo sets, remains. Resolves with undefined if there
   * is no such revision. Rejects with `limit_exceeded`, and changes nothing, if the change pins a revision although
   * `maxPinned` others are pinned.
   */
  update(
    rev: string,
    change: Partial<RevisionState>,
    entry?: AuditRecord,
    maxPinned?: number,
  ): Promise<RevisionEntry | undefined>;
  /**
   * Removes the revisions that exceed the limits, and frees their space. The active one, its parent, and pinned ones are kept
   * and count. Resolves with the number of removed revisions.
   */
  prune(retention: Retention): Promise<number>;
  /**
   * Reads the newest revision from storage. The result is a new object; `active` keeps returning its own. Other processes
   * report an event with `isReload`.
   */
  reload(): Promise<Revision>;
  /** Resolves when `active` returns the newest of the revisions that any process had committed before the call, or a newer one. */
  catchUp(): Promise<void>;
  /**
   * Calls the listener with each revision that becomes active, in order, after `active` returns it and before its
   * `commit` resolves. A store with several writers also reports commits of other processes, within seconds, but after
   * a lost connection only the newest one. A store with a single writer reports commits of others when it reads
   * storage. Disposing ends the subscription. The listener must not throw.
   */
  onRevision(listener: (event: RevisionEvent) => void): Disposable;
  /** Calls the listener when the credentials of the active revision have changed by a write. Disposing ends the subscription. */
  onCredentials(listener: (credentials: CredentialSets) => void): Disposable;
}

/** The error of a commit whose parent is not the active revision. */
export function versionMismatch(activeRev: string): FlowgateError {
  return new FlowgateError("version_mismatch", `rev: ${describeMismatch(activeRev)}`);
}

export function describeMismatch(activeRev: string): string {
  return `the active revision is ${JSON.stringify(activeRev)}: read it, resolve the differences and deploy again`;
}

/** The error of a commit whose proposal can't be approved. */
export function proposalClosed(): FlowgateError {
  return new FlowgateError(
    "proposal_closed",
    "the proposal was approved, rejected or withdrawn before, or has expired",
  );
}

/** The error of a revision that is to be pinned although so many others are. */
export function tooManyPinned(maxPinned: number): FlowgateError {
  return new FlowgateError(
    "limit_exceeded",
    `pinned: limit of pinned revisions reached (${maxPinned}, history.maxRevisions): unpin one first, or raise the option`,
  );
}

/** The error of a commit that may have been made. */
export function commitInDoubt(): FlowgateError {
  return new FlowgateError(
    "unavailable",
    "the database failed during the commit, whose outcome is unknown: before you try again, read the active revision, or " +
      "whatever the request changes; or send the deployment again with the same idempotency key",
    { retryAfterMs: 1000 },
  );
}

/** The error of a commit whose idempotency key was used by an earlier one. */
export class RepeatedRequest extends Error {
  /** The revision that the earlier request made. */
  readonly rev: string;
  readonly fingerprint: Uint8Array;

  constructor(rev: string, fingerprint: Uint8Array) {
    super("the idempotency key was used before");
    this.name = "RepeatedRequest";
    this.rev = rev;
    this.fingerprint = fingerprint;
  }
}
