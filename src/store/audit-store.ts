import type { Origin } from "./origin.ts";

/** The kinds of audit entries. */
export type AuditKind =
  | "sign_in"
  | "sign_in_failed"
  | "token_created"
  | "token_revoked"
  | "deployment"
  | "revision_updated"
  | "permission_denied"
  | "users_reloaded"
  | "users_rejected"
  | "audit_pruned"
  | "revisions_pruned"
  | "store_restored"
  | "store_migrated"
  | "runtime_restarted";

/** An event to write to the audit log. Must not contain a secret. */
export type AuditRecord = {
  readonly kind: AuditKind;
  /** Its `by` is undefined if no known user caused the event. */
  readonly origin: Origin;
  /** What the event is about: a `rev`, the id of a token, or the name of an RPC. */
  readonly subject?: string | undefined;
  readonly detail?: string | undefined;
  /** The number of events that the entry stands for. Defaults to 1. */
  readonly count?: number | undefined;
  /** The digest of the revision that was made. See `src/store/revision-digest.ts`. */
  readonly digest?: string | undefined;
};

export type AuditEntry = AuditRecord & AuditHead & { readonly timeMs: number; readonly count: number };

/** Identifies an entry together with all entries before it. */
export type AuditHead = {
  /** Sequence number, incremented by one with each entry. */
  readonly seq: number;
  /** SHA-256 in hexadecimal, over the entry and the hash of the previous one. See `src/store/audit-chain.ts`. */
  readonly hash: string;
};

export type AuditQuery = {
  readonly limit: number;
  readonly order: "newest" | "oldest";
  /** Continues after the entry with this sequence number, in the given order. */
  readonly after?: number | undefined;
  readonly kinds?: readonly AuditKind[] | undefined;
  readonly user?: string | undefined;
  readonly fromMs?: number | undefined;
  /** Exclusive. */
  readonly untilMs?: number | undefined;
};

export type AuditPage = {
  readonly entries: readonly AuditEntry[];
  /** The `after` of the next page; undefined on the last one. */
  readonly next: number | undefined;
};

export type AuditVerification = {
  /** The number of entries that were checked. */
  readonly entries: number;
  /** The newest entry; `seq` is 0 if there is none. */
  readonly head: AuditHead;
  /** The number of revisions that were compared with the digests in their entries. */
  readonly revisions: number;
  /** The first inconsistency; undefined: there is none. */
  readonly problem: string | undefined;
};

/**
 * A log of who did what. Its entries form a hash chain, so that an entry that was changed, removed, inserted or moved
 * outside of this interface is detected. Entries are never changed.
 */
export interface AuditStore {
  /** Appends the entries in one transaction. They are durable when the promise resolves. */
  append(records: readonly AuditRecord[]): Promise<void>;
  list(query: AuditQuery): Promise<AuditPage>;
  /** Checks the whole chain, the revisions that its entries record, and that it contains the entry `expected`, which was recorded elsewhere. */
  verify(expected?: AuditHead): Promise<AuditVerification>;
  /**
   * Removes the entries that are older than `maxAgeMs` by the clock of the store, except for the newest one, and appends an
   * entry with the hash of the last one removed, from which the chain continues.
   */
  prune(maxAgeMs: number): Promise<void>;
}
