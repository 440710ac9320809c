import type { CredentialSets, DeploymentType } from "../flows/configuration.ts";
import type { FlowsDocument } from "../flows/document.ts";

/** What is known of a revision without its flows. */
export type RevisionInfo = {
  /** Opaque to clients, and unique to each deployment. */
  readonly rev: string;
  /** The revision that this one replaced; undefined for the first. */
  readonly parent: string | undefined;
  /** Counts up by one with each deployment. */
  readonly seq: number;
  readonly committedAtMs: number;
  /** Who deployed; undefined where no one was authenticated. */
  readonly by: string | undefined;
  readonly deploymentType: DeploymentType;
};

/** One accepted deployment. Frozen: the same object may be given to all callers. */
export type Revision = RevisionInfo & {
  readonly flows: FlowsDocument;
  readonly credentials: CredentialSets;
};

/** A deployment to be committed. `flows.json` is stored as it is; a store does not need the nodes. */
export type RevisionDraft = Pick<Revision, "by" | "deploymentType" | "flows" | "credentials"> & {
  /** The revision that this one replaces, as its author saw it. */
  readonly parent: string;
};

export type RevisionPage = {
  readonly revisions: readonly RevisionInfo[];
  /** The cursor of the next page; undefined on the last one. */
  readonly next: number | undefined;
};

export type RevisionNotice = {
  readonly revision: Revision;
  /** Whether it was committed through this store object, not by another process. */
  readonly isOwn: boolean;
};

/**
 * Keeps every revision of the flows.
 *
 * - A new store has one revision, without flows.
 * - `commit` is all or nothing, and durable before it resolves. Of two drafts with one parent exactly
 *   one wins, whichever process they come from; the other rejects with `version_mismatch`, and its
 *   message names the active revision. By then `active` gives that revision.
 * - A commit whose signal is aborted before it begins to write rejects with the signal's reason, and nothing has
 *   changed. After that the signal has no effect: what is written stands.
 * - Credentials are never at rest in clear.
 * - Earlier revisions stay.
 */
export interface FlowStore {
  /**
   * The newest revision that this store knows of, held in memory: never touches storage, and gives the same object
   * until there is a newer one. What another process commits arrives as soon as the store learns of it.
   */
  active(): Revision;
  /** undefined where there is no such revision. */
  find(rev: string): Promise<Revision | undefined>;
  /**
   * At most `limit` revisions, newest first; `before` is the cursor of the page before. Commits between two pages
   * neither repeat nor omit a revision.
   */
  list(page: { readonly limit: number; readonly before?: number | undefined }): Promise<RevisionPage>;
  commit(draft: RevisionDraft, signal?: AbortSignal): Promise<Revision>;
  /** The newest revision, read anew from storage: another object than `active` gives, which stays. */
  reload(): Promise<Revision>;
  /**
   * Calls the listener with each revision that becomes the active one, in order, after `active` gives it and before its
   * `commit` resolves. Where several processes can write, theirs too, within seconds; of those that were
   * committed while the store could not follow, only the newest. A store with a single writer notifies of its own
   * commits, and of others' when it reads storage. Disposing ends the subscription. The listener must not throw.
   */
  onRevision(listener: (notice: RevisionNotice) => void): Disposable;
}

/** A token as it is kept: never itself, but its SHA-256. */
export type StoredToken = {
  readonly hash: Uint8Array;
  readonly username: string;
  /** SHA-256 of the user's password hash at the time of issue: the token ends with that hash. */
  readonly passwordFingerprint: Uint8Array;
  readonly clientId: string;
  /** As granted: space-separated permissions. */
  readonly scope: string;
  readonly expiresAtMs: number;
};

/** Keeps tokens across restarts. Each change is durable before it resolves. */
export interface TokenStore {
  insert(token: StoredToken): Promise<void>;
  find(hash: Uint8Array): Promise<StoredToken | undefined>;
  /** No error where there is none. */
  remove(hash: Uint8Array): Promise<void>;
  removeExpired(nowMs: number): Promise<void>;
  /**
   * Calls the listener with the hash of each token that was removed before its time, before `remove` resolves. Where several
   * processes can write, of those that they removed too, within seconds; with undefined where the store could not follow for
   * a while, so that any token may have been. Disposing ends the subscription. The listener must not throw.
   */
  onRevoked(listener: (hash: Uint8Array | undefined) => void): Disposable;
}

/** `message` is for operators and may be shown to anyone: no path, no address, no secret. */
export type StoreHealth = { readonly isUsable: true } | { readonly isUsable: false; readonly message: string };

/** What every store promises; `test/store/contract.ts` checks it. Disposing waits for what is under way. */
export interface Store extends AsyncDisposable {
  readonly flows: FlowStore;
  readonly tokens: TokenStore;
  /**
   * Whether it can read and write, as far as it knows without asking storage. One that can't keeps trying by itself. A
   * refusal (`version_mismatch`, a lock that passes) does not change it; a closed store is not usable.
   */
  health(): StoreHealth;
  /** Calls the listener after each change of `health`. Disposing ends the subscription. The listener must not throw. */
  onHealthChange(listener: () => void): Disposable;
}

/** One kind of store. `location` is what follows the scheme in the store's URL. */
export interface StoreAdapter {
  /**
   * `key`: 32 bytes, that credentials are sealed with. The caller has locked `dataDir` for this process. Throws where the key
   * is not the one that the stored credentials were sealed with.
   */
  open(location: string, options: { readonly key: Buffer; readonly dataDir: string }): Promise<Store>;
  /** Copies all revisions, as of one instant, to a new file, also while a service uses the store. */
  backup(location: string, file: string): Promise<void>;
  /**
   * Replaces what is stored by such a copy, without its tokens: some may have been revoked since. No service may use
   * the store. Gives the path of what was there before, if there was something.
   */
  restore(file: string, location: string): Promise<string | undefined>;
}
