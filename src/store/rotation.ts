import type { CredentialKey, CredentialKeys, KeyState } from "./credential-keys.ts";

/**
 * Encrypts everything in a store with a new key, while services use it:
 *
 * 1. All services that use the store have to know the new key. They decrypt with all keys that they know.
 * 2. The store names the new key, in one transaction. What is written from then on is encrypted with it.
 * 3. Everything else is encrypted again, in transactions of some rows.
 * 4. The store records that the previous keys are not needed any more.
 *
 * Each step can be repeated: a rotation that was interrupted is continued by another one with the same key.
 */
export type RotationOptions = {
  /** All that values may be encrypted with. */
  readonly keys: CredentialKeys;
  /** Resolves with the new key, which is one of `keys`. */
  readonly chooseKey: (state: KeyState) => Promise<CredentialKey>;
  /** The time to wait until all services know the new key. */
  readonly waitMs: number;
  /** The next step begins when the promise resolves. */
  readonly onProgress?: ((progress: RotationProgress) => void | Promise<void>) | undefined;
  /** Its reason is thrown between two transactions. */
  readonly signal?: AbortSignal | undefined;
};

export type RotationProgress =
  /** The new key exists. */
  | { readonly phase: "begun" }
  /** These services do not know the new key yet. */
  | { readonly phase: "waiting"; readonly services: readonly string[] }
  /** Everything is written with the new key from now on. */
  | { readonly phase: "switched" }
  /** `done` and `total` are numbers of values. */
  | { readonly phase: "encrypting" | "checking"; readonly done: number; readonly total: number }
  /** Nothing needs the previous keys any more. */
  | { readonly phase: "complete" };

export type Rotation = {
  /** The numbers of values now encrypted with the new key, by owner, such as `revisions`. */
  readonly counts: ReadonlyMap<string, number>;
  /** The number of values that this rotation has encrypted. */
  readonly encrypted: number;
  /**
   * Values that no key could decrypt, before the rotation as well, such as `revision 7Zk`; ended sessions are not
   * included.
   */
  readonly unreadable: readonly string[];
};
