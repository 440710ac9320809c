import type { CredentialSets, DeploymentType } from "../flows/configuration.ts";
import type { FlowsDocument } from "../flows/document.ts";

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

/** A revision without its flows and credentials. */
export type RevisionSummary = {
  /** Opaque id, unique to each deployment. */
  readonly rev: string;
  /** The revision that this one replaced; undefined for the first. */
  readonly parent: string | undefined;
  /** Sequence number, incremented by one with each deployment. */
  readonly seq: number;
  readonly committedAtMs: number;
  /** The user who deployed; undefined if the request was not authenticated. */
  readonly by: string | undefined;
  readonly deploymentType: DeploymentType;
};

/** An accepted deployment. Frozen, because callers share the object. */
export type Revision = RevisionSummary & {
  readonly flows: FlowsDocument;
  readonly credentials: CredentialSets;
};

/** A deployment to commit. `flows.json` is stored unchanged, and `flows.nodes` is not read. */
export type RevisionDraft = Pick<Revision, "by" | "deploymentType" | "flows" | "credentials"> & {
  /** The `rev` of the revision that this one replaces. */
  readonly parent: string;
};

export type RevisionPage = {
  readonly revisions: readonly RevisionSummary[];
  /** The cursor of the next page; undefined on the last one. */
  readonly next: number | undefined;
};

export type RevisionEvent = {
  readonly revision: Revision;
  /** Whether it was committed through this store object. */
  readonly isOwn: boolean;
};

/**
 * Stores all revisions of the flows.
 *
 * - A new store contains one revision without flows.
 * - `commit` is atomic, and durable before it resolves. Of two drafts with the same parent exactly one is committed, also
 *   across processes. The other rejects with `version_mismatch`, whose message names the active revision, and `active`
 *   then returns that revision.
 * - A commit whose signal is aborted before the write begins rejects with the signal's reason and changes nothing. After
 *   that the signal has no effect.
 * - Credentials are encrypted at rest.
 * - Earlier revisions are kept.
 */
export interface FlowStore {
  /**
   * Returns the newest known revision from memory, the same object until there is a newer one. Revisions that another
   * process commits become active when the store has read them.
   */
  active(): Revision;
  /** Resolves with undefined if there is no such revision. */
  find(rev: string): Promise<Revision | undefined>;
  /**
   * Lists at most `limit` revisions, newest first. `before` is the cursor of the previous page. Commits between two pages
   * neither repeat nor omit a revision.
   */
  list(page: { readonly limit: number; readonly before?: number | undefined }): Promise<RevisionPage>;
  commit(draft: RevisionDraft, signal?: AbortSignal): Promise<Revision>;
  /** Reads the newest revision from storage. The result is a new object; `active` keeps returning its own. */
  reload(): Promise<Revision>;
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
  /** SHA-256 of the token. The token itself is not stored. */
  readonly hash: Uint8Array;
  readonly username: string;
  /** SHA-256 of the user's password hash at the time of issue. The token is invalid when that hash changes. */
  readonly passwordFingerprint: Uint8Array;
  readonly clientId: string;
  /** The granted permissions, separated by spaces. */
  readonly scope: string;
  readonly expiresAtMs: number;
};

/** Stores access tokens. Each change is durable before its promise resolves. */
export interface TokenStore {
  insert(token: StoredToken): Promise<void>;
  find(hash: Uint8Array): Promise<StoredToken | undefined>;
  /** Succeeds if there is no such token. */
  remove(hash: Uint8Array): Promise<void>;
  removeExpired(nowMs: number): Promise<void>;
  /**
   * Calls the listener with the hash of each removed token, before `remove` resolves; not for expired ones. A store with
   * several writers also reports removals of other processes, within seconds, and calls the listener with undefined after it
   * had no connection, when any token may have been removed. Disposing ends the subscription. The listener must not throw.
   */
  onRevoked(listener: (hash: Uint8Array | undefined) => void): Disposable;
}

/** `message` is public: it must not contain a path, an address or a secret. */
export type StoreHealth = { readonly isUsable: true } | { readonly isUsable: false; readonly message: string };

/** The contract of every store, which `test/store/contract.ts` tests. Disposing waits for pending operations. */
export interface Store extends AsyncDisposable {
  readonly flows: FlowStore;
  readonly tokens: TokenStore;
  /**
   * Whether reads and writes succeeded last, without accessing storage. A store that is not usable keeps retrying. Errors
   * that are not failures of the storage, such as `version_mismatch` or a temporary lock, do not change it. A closed store
   * is not usable.
   */
  health(): StoreHealth;
  /** Calls the listener after each change of `health`. Disposing ends the subscription. The listener must not throw. */
  onHealthChange(listener: () => void): Disposable;
}

/** A kind of store. `location` is the part of the store's URL after the scheme. */
export interface StoreAdapter {
  /**
   * `key` encrypts credentials and has 32 bytes. The caller must have locked `dataDir`. Rejects if the stored credentials
   * were encrypted with another key.
   */
  open(location: string, options: { readonly key: Buffer; readonly dataDir: string }): Promise<Store>;
  /** Copies a consistent snapshot of all revisions to a new file. A service may use the store at the same time. */
  backup(location: string, file: string): Promise<void>;
  /**
   * Replaces the data by a backup, without its tokens, since some may have been revoked in the meantime. No service may use
   * the store. Resolves with the path under which the previous data is kept, if there was any.
   */
  restore(file: string, location: string): Promise<string | undefined>;
}
