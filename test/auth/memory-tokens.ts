import { createListeners } from "../../src/listeners.ts";
import type { StoredToken, TokenStore } from "../../src/store/store.ts";

export type MemoryTokens = TokenStore & { readonly all: ReadonlyMap<string, StoredToken>; readonly sweeps: number[] };

export function createMemoryTokens(): MemoryTokens {
  const all = new Map<string, StoredToken>();
  const sweeps: number[] = [];
  const revoked = createListeners<Uint8Array | undefined>();
  const key = (hash: Uint8Array): string => Buffer.from(hash).toString("hex");
  return {
    all,
    sweeps,
    insert: async (token) => void all.set(key(token.hash), token),
    find: async (hash) => all.get(key(hash)),
    async remove(hash) {
      all.delete(key(hash));
      revoked.notify(hash);
    },
    removeExpired: async (nowMs) => {
      sweeps.push(nowMs);
      for (const [hash, { expiresAtMs }] of all) {
        if (expiresAtMs <= nowMs) {
          all.delete(hash);
        }
      }
    },
    onRevoked: (listener) => revoked.add(listener),
  };
}
