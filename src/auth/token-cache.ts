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
  const cache = new Map<string, StoredToken>();
  let revocations = 0;
  const subscription = store.onRevoked((hash) => {
    revocations += 1;
    if (hash === undefined) {
      cache.clear();
    } else {
      cache.delete(keyOf(hash));
    }
  });

  async function findInStore(hash: Uint8Array, key: string): Promise<StoredToken | undefined> {
    const revocationsBefore = revocations;
    const token = await store.find(hash);
    // The token may have been revoked in the meantime.
    if (token !== undefined && revocations === revocationsBefore) {
      cache.set(key, token);
      const [oldest] = cache.keys();
      if (cache.size > limit && oldest !== undefined) {
        cache.delete(oldest);
      }
    }
    return token;
  }

  return {
    insert: (...call) => store.insert(...call),
    find(hash) {
      const key = keyOf(hash);
      const known = store.isCurrent() ? cache.get(key) : undefined;
      return known ?? findInStore(hash, key);
    },
    remove: (selector, entry) => store.remove(selector, entry),
    findStored(hash) {
      const key = keyOf(hash);
      cache.delete(key);
      return findInStore(hash, key);
    },
    removeExpired: (nowMs) => store.removeExpired(nowMs),
    async updateSession(change) {
      const isUpdated = await store.updateSession(change);
      cache.delete(keyOf(change.hash));
      return isUpdated;
    },
    [Symbol.dispose]: () => subscription[Symbol.dispose](),
  };
}

function keyOf(hash: Uint8Array): string {
  return Buffer.from(hash.buffer, hash.byteOffset, hash.byteLength).toString("latin1");
}
