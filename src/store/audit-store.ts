import type { Logger } from "pino";

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
  | "runtime_restarted"
  | "flows_started"
  | "flows_stopped"
  | "node_injected"
  | "context_set"
  | "context_deleted"
  | "module_installed"
  | "module_removed"
  | "module_enabled"
  | "module_disabled"
  | "proposal_created"
  | "proposal_approved"
  | "proposal_rejected"
  | "proposal_withdrawn"
  | "unapproved_deployment"
  | "library_written"
  | "credentials_written"
  | "credential_rotation_begun"
  | "credentials_rotated";

/** An event to write to the audit log. Must not contain a secret. */
export type AuditRecord = {
  readonly kind: AuditKind;
  /** Its `by` is undefined if no known user caused the event. */
  readonly origin: Origin;
  /** The subject of the event: a `rev`, the id of a token, or the name of an RPC. */
  readonly subject?: string | undefined;
  readonly detail?: string | undefined;
  /** The number of events that the entry stands for. Defaults to 1. */
  readonly count?: number | undefined;
  /** The digest of the revision that was made, see `digestRevision`, or of a proposal. */
  readonly digest?: string | undefined;
};

export type AuditEntry = AuditRecord & AuditHead & { readonly timeMs: number; readonly count: number };

export type AuditHead = {
  /** Sequence number, incremented by one with each entry. */
  readonly seq: number;
  /** SHA-256 in hexadecimal, over the entry and the hash of the previous one. See `hashEntry`. */
  readonly hash: string;
};

export const emptyHead: AuditHead = { seq: 0, hash: "" };

/** The text form of a head, as commands print it, and as the `subject` of `audit_pruned` entries. */
export function formatHead({ seq, hash }: AuditHead): string {
  return `${seq}:${hash}`;
}

/** Undefined: the text has another form. */
export function parseHead(text: string): AuditHead | undefined {
  const match = /^([1-9]\d{0,14}):([\da-f]{64})$/.exec(text);
  return match === null ? undefined : { seq: Number(match[1]), hash: match[2] ?? "" };
}

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

/** The user and the request that caused a change. */
export type Origin = {
  /** The user; undefined if the request was not authenticated. */
  readonly by: string | undefined;
  /** The access token of the request; undefined if it had none. */
  readonly token?:
    | { readonly id: string; /** Undefined if it was issued for a login. */ readonly name: string | undefined }
    | undefined;
  /** The IP address of the client. */
  readonly address: string | undefined;
  /** "rest", "connect", "grpc" or "grpc-web". */
  readonly protocol: string | undefined;
  readonly requestId: string | undefined;
};

/** The origin of events that no request causes. */
export const systemOrigin: Origin = { by: undefined, address: undefined, protocol: undefined, requestId: undefined };

const dayMs = 86_400_000;
const checkIntervalMs = 3_600_000;

export type AuditRetentionOptions = {
  readonly store: Pick<AuditStore, "list" | "prune">;
  /** 0 keeps all entries. */
  readonly retentionDays: number;
  readonly log: Logger;
  readonly now?: () => number;
};

/** Removes entries of the audit log that are older than the retention time, about once a day. Disposing ends that. */
export function openAuditRetention({ store, retentionDays, log, now = Date.now }: AuditRetentionOptions): Disposable {
  async function prune(): Promise<void> {
    const maxAgeMs = retentionDays * dayMs;
    const { entries } = await store.list({ limit: 2, order: "oldest" });
    const [oldest] = entries;
    // A day later than necessary, so that the entries of a day are removed together.
    if (oldest !== undefined && entries.length === 2 && oldest.timeMs < now() - maxAgeMs - dayMs) {
      await store.prune(maxAgeMs);
    }
  }

  const check = (): void =>
    void prune().catch((error: unknown) => log.error({ err: error }, "old audit entries could not be removed"));
  if (retentionDays === 0) {
    return { [Symbol.dispose]: () => {} };
  }
  check();
  const timer = setInterval(check, checkIntervalMs).unref();
  return { [Symbol.dispose]: () => clearInterval(timer) };
}
