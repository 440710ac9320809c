import type { CredentialSets, DeploymentType } from "../flows/configuration.ts";
import type { FlowsDocument } from "../flows/document.ts";
import type { Cluster } from "./cluster.ts";
import type { RepeatedRequest } from "./errors.ts";
import type { LoginAttempts } from "./login-attempts.ts";
import type { Row, TableName } from "./tables.ts";

/** Who caused a change, and by which request. */
export type Origin = {
  /** The user; undefined if the request was not authenticated. */
  readonly by: string | undefined;
  /** The IP address of the client. */
  readonly address: string | undefined;
  /** "rest", "connect", "grpc" or "grpc-web". */
  readonly protocol: string | undefined;
  readonly requestId: string | undefined;
};

/** How the flows of a revision were made: by a deployment, by a merge with another one, or from an earlier revision. */
export type RevisionCause = "deployment" | "merge" | "flow" | "restore" | "undo" | "automatic_undo";

/** A revision without its flows and credentials. Immutable. */
export type RevisionSummary = Origin & {
  /** Opaque id, unique to each deployment. */
  readonly rev: string;
  /** The revision that this one replaced; undefined for the first. It may have been removed. */
  readonly parent: string | undefined;
  /** Sequence number, incremented by one with each deployment. */
  readonly seq: number;
  readonly committedAtMs: number;
  readonly deploymentType: DeploymentType;
  readonly cause: RevisionCause;
  /** The earlier revision whose flows and credentials this one has. */
  readonly restoredRev: string | undefined;
  readonly nodeCount: number;
  /** The size of the flows' JSON. */
  readonly sizeBytes: number;
};

/** An accepted deployment. Frozen, because callers share the object. */
export type Revision = RevisionSummary & {
  readonly flows: FlowsDocument;
  readonly credentials: CredentialSets;
};

/**
 * What became of a revision in the runtime. `pending`: not known yet; `replaced`: a newer revision was committed before this
 * one was started.
 */
export type RevisionOutcome = {
  readonly state: (typeof outcomeStates)[number];
  /** Why the flows don't run, or which nodes logged an error while they were started. */
  readonly message: string | undefined;
  /** The node types that are not installed. */
  readonly missingTypes: readonly string[];
};

export const outcomeStates = ["pending", "running", "failed", "crashed", "replaced"] as const;

/** The properties of a revision that may change. */
export type RevisionState = {
  /** A comment of the user who deployed. */
  readonly message: string | undefined;
  /** A pinned revision is never removed by `prune`. */
  readonly pinned: boolean;
  readonly outcome: RevisionOutcome;
  /** The revision is undone unless its flows run without failure for this time; undefined: there is no such condition, or no longer. */
  readonly probationMs: number | undefined;
};

/** A revision in the history. */
export type RevisionEntry = RevisionSummary & RevisionState;

/** Identifies the request that made a revision, so that repeating the request does not make another one. */
type IdempotencyKey = {
  /** Chosen by the client; the keys of each user are separate. */
  readonly key: string;
  /** A hash of the request. */
  readonly fingerprint: Uint8Array;
};

/** A deployment to commit. `flows.json` is stored unchanged, and `flows.nodes` is not read. */
export type RevisionDraft = Origin &
  Pick<Revision, "deploymentType" | "cause" | "restoredRev" | "flows" | "credentials"> &
  Pick<RevisionState, "message" | "probationMs"> & {
    /** The `rev` of the revision that this one replaces. */
    readonly parent: string;
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

/** Which revisions `prune` removes: those that exceed one of the limits. */
export type Retention = {
  readonly maxCount: number;
  /** Undefined: there is no limit. */
  readonly maxAgeMs: number | undefined;
};

export type RevisionEvent = {
  readonly revision: Revision;
  /** Whether it was committed through this store object. */
  readonly isOwn: boolean;
  /** Whether another process has called `reload`, which restarts all nodes of an unchanged revision. */
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
 * - A commit whose signal is aborted before the write begins rejects with the signal's reason and changes nothing. After
 *   that the signal has no effect.
 * - A commit writes its audit entry in the same transaction.
 * - Credentials are encrypted at rest.
 * - Only `prune` removes revisions.
 */
export interface FlowStore {
  /**
   * Returns the newest known revision from memory, the same object until there is a newer one. Revisions that another
   * process commits become active when the store has read them.
   */
  active(): Revision;
  /** Resolves with undefined if there is no such revision. */
  find(rev: string): Promise<Revision | undefined>;
  /** The same without reading flows and credentials. */
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
   * Changes the given properties, durably, and writes the audit entry in the same transaction. Resolves with undefined if
   * there is no such revision.
   */
  update(rev: string, change: Partial<RevisionState>, entry?: AuditRecord): Promise<RevisionEntry | undefined>;
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
   * Calls the listener with each revision that becomes active, in order, after `active` returns it and before its `commit`
   * resolves. A store with several writers also reports commits of other processes, within seconds, and only the newest of
   * those that were committed while it had no connection. A store with a single writer reports commits of others when it
   * reads storage. Disposing ends the subscription. The listener must not throw.
   */
  onRevision(listener: (event: RevisionEvent) => void): Disposable;
}

/** An access token as it is stored. */
export type StoredToken = {
  /** Public id, which can be shown and logged. */
  readonly id: string;
  /** SHA-256 of the token. The token itself is not stored. */
  readonly hash: Uint8Array;
  /** The name given by the user; undefined if the token was issued for a login. */
  readonly name: string | undefined;
  readonly username: string;
  /** SHA-256 of the user's password hash at the time of issue. The token is invalid when that hash changes. */
  readonly passwordFingerprint: Uint8Array;
  readonly clientId: string;
  /** The granted permissions, separated by spaces. */
  readonly scope: string;
  /** undefined: issued by a version that did not record it. */
  readonly createdAtMs: number | undefined;
  readonly expiresAtMs: number;
};

/** `lastUsedAtMs` is undefined for a token that was not used yet. */
export type ListedToken = StoredToken & { readonly lastUsedAtMs: number | undefined };

export type TokenPage = {
  readonly tokens: readonly ListedToken[];
  /** The cursor of the next page; undefined on the last one. */
  readonly next: number | undefined;
};

export type TokenQuery = {
  readonly limit: number;
  /** Omits tokens that have expired by then. */
  readonly nowMs: number;
  readonly username?: string | undefined;
  /** The cursor of the previous page. */
  readonly before?: number | undefined;
};

/** Selects tokens: one by its id or hash, those of a user, or all. */
export type TokenSelector =
  | { readonly id: string }
  | { readonly hash: Uint8Array }
  | { readonly username: string }
  | "all";

/**
 * Stores access tokens. Each change is durable before its promise resolves. Inserting and removing tokens write the given
 * audit entry in the same transaction.
 */
export interface TokenStore {
  insert(token: StoredToken, entry: AuditRecord): Promise<void>;
  find(hash: Uint8Array): Promise<StoredToken | undefined>;
  /** Resolves with undefined if there is no token with this id. */
  get(id: string): Promise<StoredToken | undefined>;
  /** Newest first. */
  list(query: TokenQuery): Promise<TokenPage>;
  /**
   * Removes the selected tokens, and resolves with their number, which becomes the `count` of the entry. Without such
   * tokens nothing is written.
   */
  remove(selector: TokenSelector, entry: AuditRecord): Promise<number>;
  removeExpired(nowMs: number): Promise<void>;
  /** Sets the time of the last use of tokens by id. Ignores unknown ones. */
  recordUses(uses: ReadonlyMap<string, number>): Promise<void>;
  /**
   * Calls the listener with the hash of each removed token, before `remove` resolves; not for expired ones. A store with
   * several writers also reports removals of other processes, within seconds, and calls the listener with undefined after it
   * had no connection, when any token may have been removed. Disposing ends the subscription. The listener must not throw.
   */
  onRevoked(listener: (hash: Uint8Array | undefined) => void): Disposable;
  /**
   * False while removals by other processes may not have been reported for some seconds although the store is usable, as
   * after this process was paused.
   */
  isCurrent(): boolean;
}

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
  readonly toMs?: number | undefined;
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
  /** Checks the whole chain, and that it contains the entry `expected`, which was recorded elsewhere. */
  verify(expected?: AuditHead): Promise<AuditVerification>;
  /**
   * Removes the entries written before `beforeMs`, except for the newest one, and appends an entry with the hash of the
   * last one removed, from which the chain continues.
   */
  prune(beforeMs: number): Promise<void>;
}

/** `message` is public: it must not contain a path, an address or a secret. */
export type StoreHealth = { readonly isUsable: true } | { readonly isUsable: false; readonly message: string };

/** The contract of every store, which `test/store/contract.ts` tests. Disposing waits for pending operations. */
export interface Store extends AsyncDisposable {
  readonly flows: FlowStore;
  readonly tokens: TokenStore;
  readonly audit: AuditStore;
  readonly logins: LoginAttempts;
  /** The other processes that use the store; undefined if only one can. */
  readonly cluster: Cluster | undefined;
  /**
   * Whether reads and writes succeeded last, without accessing storage. A store that is not usable keeps retrying. Errors
   * that are not failures of the storage, such as `version_mismatch` or a temporary lock, do not change it. A closed store
   * is not usable.
   */
  health(): StoreHealth;
  /** Calls the listener after each change of `health`. Disposing ends the subscription. The listener must not throw. */
  onHealthChange(listener: () => void): Disposable;
}

/** Reads the data of a store, as of one point in time. */
export interface TableReader extends AsyncDisposable {
  count(table: TableName): Promise<number>;
  /** Reads all rows, in batches. Their order does not depend on the adapter. */
  read(table: TableName): AsyncIterable<readonly Row[]>;
  /** The newest audit entry, as it was recorded apart from the log. */
  readHead(): Promise<AuditHead>;
}

/** Fills a new store in one transaction, and reads what was written. Disposing without `commit` leaves the store as it was. */
export interface TableWriter extends TableReader {
  /** `rows` is not empty. */
  write(table: TableName, rows: readonly Row[]): Promise<void>;
  /** Records the newest audit entry apart from the log. */
  writeHead(head: AuditHead): Promise<void>;
  /** The data is durable when the promise resolves. */
  commit(): Promise<void>;
}

/** A kind of store. `location` is the part of the store's URL after the scheme. */
export interface StoreAdapter {
  /**
   * `key` encrypts credentials and has 32 bytes. The caller must have locked `dataDir`. Rejects if the stored credentials
   * were encrypted with another key.
   */
  open(location: string, options: { readonly key: Buffer; readonly dataDir: string }): Promise<Store>;
  /**
   * Copies a consistent snapshot of all data to a new file, a SQLite database. A service may use the store at the same time.
   */
  backup(location: string, file: string): Promise<void>;
  /**
   * Replaces the data by a backup, without its tokens, since some may have been revoked in the meantime. No service may use
   * the store. Resolves with the path under which the previous data is kept, if there was any. An adapter that can't keep
   * it rejects unless the store is new. `readKeys` is as `CopyOptions.keys`.
   */
  restore(file: string, location: string, readKeys: () => Promise<readonly Buffer[]>): Promise<string | undefined>;
  /** Rejects if a service uses the store, and prevents changes of its data until the reader is disposed. */
  openReader(location: string): Promise<TableReader>;
  /**
   * Rejects if a service uses the store, or if the store has data: a token, an audit entry, or a revision other than the first
   * one. Services can't use it until the writer is disposed.
   */
  openWriter(location: string): Promise<TableWriter>;
  /** Checks the audit log, as `AuditStore.verify`. A service may use the store at the same time. */
  verifyAudit(location: string, expected?: AuditHead): Promise<AuditVerification>;
}
