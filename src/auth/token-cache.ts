import type { StoredToken, TokenStore } from "../store/store.ts";

/** A token store whose look-ups may be answered from memory, without a promise. */
export type Tokens = Pick<TokenStore, "insert" | "remove" | "removeExpired"> & {
  find(hash: Uint8Array): StoredToken | undefined | Promise<StoredToken | undefined>;
};

/** Some 300 bytes each. */
const maxTokens = 10_000;

/**
 * Remembers the tokens that were found, until the store gives notice that they are revoked. Expired ones are found too, as in
 * the store. Where there are too many, the one that was remembered first is forgotten.
 */
export function openTokenCache(store: TokenStore, limit = maxTokens): Tokens & Disposable {
  const found = new Map<string, StoredToken>();
  let notices = 0;
  const subscription = store.onRevoked((hash) => {
    notices += 1;
    if (hash === undefined) {
      found.clear();
    } else {
      found.delete(keyOf(hash));
    }
  });

  async function look(hash: Uint8Array, key: string): Promise<StoredToken | undefined> {
    const before = notices;
    const token = await store.find(hash);
    // A notice since then may have been of this token.
    if (token !== undefined && notices === before) {
      found.set(key, token);
      const [oldest] = found.keys();
      if (found.size > limit && oldest !== undefined) {
        found.delete(oldest);
      }
    }
    return token;
  }

  return {
    insert: (token) => store.insert(token),
    find(hash) {
      const key = keyOf(hash);
      return found.get(key) ?? look(hash, key);
    },
    remove: (hash) => store.remove(hash),
    removeExpired: (nowMs) => store.removeExpired(nowMs),
    [Symbol.dispose]: () => subscription[Symbol.dispose](),
  };
}

function keyOf(hash: Uint8Array): string {
  return Buffer.from(hash.buffer, hash.byteOffset, hash.byteLength).toString("latin1");
}
