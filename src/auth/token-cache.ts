import type { StoredToken, TokenStore } from "../store/token-store.ts";

/** A token store whose `find` returns cached tokens synchronously. */
export type Tokens = Pick<TokenStore, "insert" | "remove" | "removeExpired" | "updateSession"> & {
  find(hash: Uint8Array): StoredToken | undefined | Promise<StoredToken | undefined>;
  /** The same from the store, since another process may have updated a session. */
  findStored(hash: Uint8Array): Promise<StoredToken | undefined>;
};

/** Each takes about 300 bytes. */
const maxTokens = 10_000;

/**
 * Caches tokens until the store reports their revocation. Cached tokens are used only while the store can report revocations.
 * Like the store, it also returns expired tokens. When the cache is full, the oldest entry is evicted.
 */
export function openTokenCache(store: TokenStore, limit = maxTokens): Tokens & Disposable {
  return new TokenCache(store, limit);
}

class TokenCache implements Tokens, Disposable {
  readonly #store: TokenStore;
  readonly #limit: number;
  readonly #cache = new Map<string, StoredToken>();
  readonly #subscription: Disposable;
  #revocations = 0;

  constructor(store: TokenStore, limit: number) {
    this.#store = store;
    this.#limit = limit;
    this.#subscription = store.onRevoked((hash) => {
      this.#revocations += 1;
      if (hash === undefined) {
        this.#cache.clear();
      } else {
        this.#cache.delete(keyOf(hash));
      }
    });
  }

  insert(...call: Parameters<TokenStore["insert"]>): ReturnType<TokenStore["insert"]> {
    return this.#store.insert(...call);
  }

  find(hash: Uint8Array): StoredToken | undefined | Promise<StoredToken | undefined> {
    const key = keyOf(hash);
    const known = this.#store.isCurrent() ? this.#cache.get(key) : undefined;
    return known ?? this.#findInStore(hash, key);
  }

  findStored(hash: Uint8Array): Promise<StoredToken | undefined> {
    const key = keyOf(hash);
    this.#cache.delete(key);
    return this.#findInStore(hash, key);
  }

  remove(...call: Parameters<TokenStore["remove"]>): ReturnType<TokenStore["remove"]> {
    return this.#store.remove(...call);
  }

  removeExpired(nowMs: number): ReturnType<TokenStore["removeExpired"]> {
    return this.#store.removeExpired(nowMs);
  }

  async updateSession(change: Parameters<TokenStore["updateSession"]>[0]): Promise<boolean> {
    const isUpdated = await this.#store.updateSession(change);
    this.#cache.delete(keyOf(change.hash));
    return isUpdated;
  }

  [Symbol.dispose](): void {
    this.#subscription[Symbol.dispose]();
  }

  async #findInStore(hash: Uint8Array, key: string): Promise<StoredToken | undefined> {
    const revocationsBefore = this.#revocations;
    const token = await this.#store.find(hash);
    // The token may have been revoked in the meantime.
    if (token !== undefined && this.#revocations === revocationsBefore) {
      this.#cache.set(key, token);
      const [oldest] = this.#cache.keys();
      if (this.#cache.size > this.#limit && oldest !== undefined) {
        this.#cache.delete(oldest);
      }
    }
    return token;
  }
}

function keyOf(hash: Uint8Array): string {
  return Buffer.from(hash.buffer, hash.byteOffset, hash.byteLength).toString("latin1");
}
