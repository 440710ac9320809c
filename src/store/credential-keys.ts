import { hkdfSync } from "node:crypto";
import { createListeners } from "@flowgate/base/listeners";
import { FlowgateError } from "@flowgate/flows/errors";

/** A key of the credentials. */
export type CredentialKey = {
  /** Identifies the key, and does not reveal it. */
  readonly id: string;
  /** Encrypts credentials, 32 bytes. */
  readonly bytes: Buffer;
  /** Encrypts what browsers and sessions keep, 32 bytes. */
  readonly sessionBytes: Buffer;
  /** The configured secret that it is derived from; undefined: it is in a file. */
  readonly secret: string | undefined;
};

export const keyBytes = 32;

/** Derives a key from `bytes`. The purposes must never change. */
export function createKey(bytes: Buffer, secret?: string): CredentialKey {
  const derive = (purpose: string, length: number): Buffer =>
    Buffer.from(hkdfSync("sha256", bytes, "", purpose, length));
  return {
    id: derive("flowgate credential key id v1", 8).toString("hex"),
    bytes,
    sessionBytes: derive("flowgate sessions v1", keyBytes),
    secret,
  };
}

export function deriveKey(secret: string): CredentialKey {
  // HKDF separates this key from the one that the `$` format derives from the same secret (its plain SHA-256). It does not
  // strengthen a guessable secret. The info string names the purpose and must never change.
  return createKey(Buffer.from(hkdfSync("sha256", secret, "", "flowgate credentials at rest v1", keyBytes)), secret);
}

/** The keys with which the values in a store may be encrypted, by their ids. */
export type KeyState = {
  /** Encrypts all that is written. */
  readonly current: string;
  /** Others that values are still encrypted with, until a rotation is complete. */
  readonly previous: readonly string[];
};

/** The coordination between the keys of a process and the state in its store. */
export interface KeyStateStore {
  find(): Promise<KeyState>;
  /** Records which keys this process knows, so that no other one encrypts with a key that it lacks. */
  report(ids: readonly string[]): Promise<void>;
}

/**
 * The keys that a process knows. It decrypts with all of them, and encrypts with the one that the store names: a rotation changes it
 * when all processes know the new one.
 */
export class CredentialKeys {
  #known: ReadonlyMap<string, CredentialKey>;
  #current: string;
  /** The id of the key that the store names, if it is not known. */
  #missing: string | undefined;
  #store: KeyStateStore | undefined;
  readonly #listeners = createListeners<void>();

  /** The first one is the configured one. */
  constructor(keys: readonly CredentialKey[]) {
    this.#known = byId(keys);
    this.#current = this.configured().id;
  }

  /** The key that is to encrypt everything. */
  configured(): CredentialKey {
    const [first] = this.#known.values();
    if (first === undefined) {
      throw new Error("there is no key");
    }
    return first;
  }

  /** The key for new values. Throws `unavailable` if the store names an unknown one. */
  current(): CredentialKey {
    const key = this.#known.get(this.#current);
    if (key === undefined || this.#missing !== undefined) {
      throw new FlowgateError("unavailable", missingKey);
    }
    return key;
  }

  /** All keys, the ones that most values are encrypted with first. */
  all(): readonly CredentialKey[] {
    const current = this.#known.get(this.#current);
    const others = this.#known.values().filter((key) => key !== current);
    return [...(current === undefined ? [] : [current]), ...others];
  }

  ids(): readonly string[] {
    return [...this.#known.keys()];
  }

  /** Why nothing can be encrypted, nor what other processes have encrypted be decrypted; undefined: everything can. */
  problem(): string | undefined {
    return this.#missing === undefined ? undefined : missingKey;
  }

  /** Encrypts with this key from now on, as the store says. */
  use(id: string): void {
    const missing = this.#known.has(id) ? undefined : id;
    const current = missing === undefined ? id : this.#current;
    if (missing !== this.#missing || current !== this.#current) {
      this.#missing = missing;
      this.#current = current;
      this.#listeners.notify();
    }
  }

  /** Follows the state in a store from now on. Rejects if a key of it is not known. */
  async follow(store: KeyStateStore): Promise<void> {
    // Reported first: values encrypted with another key from now on are in the state.
    await store.report(this.ids());
    const state = await store.find();
    if (!isComplete(this.#known, state)) {
      throw wrongSecret(state.previous.length > 0);
    }
    this.use(state.current);
    this.#store = store;
  }

  /** Replaces the keys. Rejects, and changes nothing, if the store still has values that are encrypted with another one. */
  async replace(keys: readonly CredentialKey[]): Promise<void> {
    const known = byId(keys);
    await this.#store?.report([...known.keys()]);
    const state = await this.#store?.find();
    if (state !== undefined && !isComplete(known, state)) {
      await this.#store?.report(this.ids());
      throw new Error(
        "previousCredentialSecrets: must contain the secret that credentials are still encrypted with, until flowgate credentials rotate has encrypted them with the new one",
      );
    }
    this.#known = known;
    this.#missing = undefined;
    this.#current = state?.current ?? this.configured().id;
    this.#listeners.notify();
  }

  /** Adds keys that the store may name later. */
  async add(keys: readonly CredentialKey[]): Promise<void> {
    this.#known = byId([...this.#known.values(), ...keys]);
    await this.#store?.report(this.ids());
    if (this.#missing !== undefined) {
      this.use(this.#missing);
    }
  }

  /** Calls the listener after each change. Disposing ends the subscription. The listener must not throw. */
  onChange(listener: () => void): Disposable {
    return this.#listeners.add(listener);
  }
}

function byId(keys: readonly CredentialKey[]): ReadonlyMap<string, CredentialKey> {
  return new Map(keys.map((key) => [key.id, key]));
}

function isComplete(known: ReadonlyMap<string, unknown>, { current, previous }: KeyState): boolean {
  return [current, ...previous].every((id) => known.has(id));
}

const missingKey =
  "the credentials are encrypted with a secret that this service does not have: configure it as credentialSecret, or in previousCredentialSecrets";

/** For commands, which can be given another data directory. */
export const missingSecret =
  "the credentials can't be decrypted: configure the credentialSecret that was used to store them, or add it to " +
  "previousCredentialSecrets; if none was set, name the data directory with the credential.key of that time";

/** The error of a secret that is not the one of the store. */
export function wrongSecret(isRotating = false): Error {
  return new Error(
    "The stored credentials can't be decrypted with this credentialSecret. Set the one that was used to store them, or add it to " +
      "previousCredentialSecrets. If none was set, leave it out and restore the credential.key of that time to the data directory." +
      (isRotating ? " A rotation is not complete: both its secrets are needed until it is." : ""),
  );
}
