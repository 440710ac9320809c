/** What login attempts are counted by: a user name or a client. */
export type AttemptLimit = {
  /** A hash, which bounds its size. */
  readonly key: string;
  /** The number of failed attempts within the window after which the key is blocked. */
  readonly max: number;
  /** Whether a successful attempt resets the failures of this key. */
  readonly isReset: boolean;
};

export type AttemptReply =
  | { readonly kind: "begun"; readonly attempt: LoginAttempt }
  /** Failed attempts have reached a limit, for this time. */
  | { readonly kind: "blocked"; readonly forMs: number }
  /** Failed attempts and those in progress have reached a limit. */
  | { readonly kind: "busy" };

/** An attempt in progress. */
export type LoginAttempt = {
  /**
   * Must be called once. A failed attempt counts from now on for the window, an abandoned one never. Resolves with the keys
   * that are blocked now.
   */
  end(outcome: "succeeded" | "failed" | "abandoned"): Promise<readonly string[]>;
};

/** Counts login attempts, together for all processes that use the store. */
export interface LoginAttempts {
  /**
   * Begins an attempt that counts for all the keys, or for none if one of them has reached its limit. Concurrent attempts
   * can't exceed a limit, also from several processes: one in progress counts as failed. An attempt of a process that has
   * exited counts as failed too.
   */
  begin(limits: readonly AttemptLimit[], windowMs: number): Promise<AttemptReply>;
}
