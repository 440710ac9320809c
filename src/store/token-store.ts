import type { AuditRecord } from "./audit-store.ts";

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
  /**
   * The data of a browser session, a text that the store encrypts and does not interpret. Empty: it can't be decrypted
   * any more, and the session has ended. undefined: an access token.
   */
  readonly session?: string | undefined;
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

/** Selects tokens: one by its id or hash, one user's, or all. */
export type TokenSelector =
  | { readonly id: string }
  | { readonly hash: Uint8Array }
  | { readonly username: string }
  | "all";

export type SessionChange = { readonly hash: Uint8Array; readonly from: string; readonly to: string };

/** The numbers of named tokens that have not expired. */
export type NamedTokenLimits = { readonly perUser: number; readonly total: number; readonly nowMs: number };

/**
 * Stores access tokens. Each change is durable before its promise resolves. Inserting and removing tokens write the given
 * audit entry in the same transaction.
 */
export interface TokenStore {
  /** Rejects with `limit_exceeded`, and changes nothing, if a limit of named tokens is reached. */
  insert(token: StoredToken, entry: AuditRecord, limits?: NamedTokenLimits): Promise<void>;
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
  /** Replaces the data of a session. Resolves with false, and changes nothing, if it is not `from` any more. */
  updateSession(change: SessionChange): Promise<boolean>;
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
