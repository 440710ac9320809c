import type { StoredToken, TokenStore } from "../../src/store/store.ts";

export type MemoryTokens = TokenStore & { readonly all: ReadonlyMap<string, StoredToken>; readonly sweeps: number[] };

export function createMemoryTokens(): MemoryTokens {
  const all = new Map<string, StoredToken>();
  const sweeps: number[] = [];
  const key = (hash: Uint8Array): string => Buffer.from(hash).toString("hex");
  return {
    all,
    sweeps,
    insert: async (token) => void all.set(key(token.hash), token),
    find: async (hash) => all.get(key(hash)),
    remove: async (hash) => void all.delete(key(hash)),
    removeExpired: async (nowMs) => {
      sweeps.push(nowMs);
      for (const [hash, { expiresAtMs }] of all) {
        if (expiresAtMs <= nowMs) {
          all.delete(hash);
        }
      }
    },
  };
}
