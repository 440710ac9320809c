import type { CredentialSets, DeploymentType, FlowNode } from "../flows/configuration.ts";

/** One accepted deployment. Never changed once it is made: the same object may be given to all who ask. */
export type Revision = {
  /** Opaque to clients, and unique to each deployment. */
  readonly rev: string;
  /** Counts up by one with each deployment; tells which of two is newer. */
  readonly seq: number;
  readonly committedAtMs: number;
  /** Who deployed; undefined where no one was authenticated. */
  readonly by: string | undefined;
  readonly deploymentType: DeploymentType;
  readonly flows: readonly FlowNode[];
  readonly credentials: CredentialSets;
};

export type RevisionDraft = Pick<Revision, "by" | "deploymentType" | "flows" | "credentials"> & {
  /** The revision that this one replaces, as its author saw it. */
  readonly parent: string;
};

/**
 * Keeps every revision of the flows.
 *
 * - A new store has one revision, without flows.
 * - `commit` is all or nothing, and durable before it resolves. Of two drafts with one parent exactly
 *   one wins, whichever process they come from; the other rejects with `version_mismatch`, and its
 *   message names the active revision.
 * - A commit whose signal is aborted before it begins to write rejects with the signal's reason, and nothing has
 *   changed. From then on the signal means nothing: what is written stands.
 * - Credentials are never at rest in clear.
 * - Earlier revisions stay.
 */
export interface FlowStore extends AsyncDisposable {
  /** The newest revision; the same object until there is a newer one. */
  active(): Promise<Revision>;
  commit(draft: RevisionDraft, signal?: AbortSignal): Promise<Revision>;
  /** The newest revision, read anew from storage: another object than `active` gives, which stays. */
  reload(): Promise<Revision>;
}

/** A token as it is kept: never itself, but its SHA-256. */
export type StoredToken = {
  readonly hash: Uint8Array;
  readonly username: string;
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
}
