import { randomBytes } from "node:crypto";
import { createListeners } from "@flowgate/base/listeners";
import type { AuditRecord } from "../../src/store/audit-store.ts";
import type { ListedToken, StoredToken, TokenStore } from "../../src/store/token-store.ts";

export type MemoryTokens = TokenStore & {
  readonly findStored: TokenStore["find"];
  readonly all: ReadonlyMap<string, StoredToken>;
  readonly sweeps: number[];
  /** The audit entries of insertions and removals. */
  readonly entries: AuditRecord[];
};

export function token(init: Partial<StoredToken> = {}): StoredToken {
  return {
    id: randomBytes(12).toString("hex"),
    hash: new Uint8Array(randomBytes(32)),
    name: undefined,
    username: "ada",
    passwordFingerprint: new Uint8Array(randomBytes(32)),
    clientId: "service-admin",
    scope: "*",
    createdAtMs: 0,
    expiresAtMs: Number.MAX_SAFE_INTEGER,
    ...init,
  };
}

export function createMemoryTokens(): MemoryTokens {
  const all = new Map<string, StoredToken>();
  const uses = new Map<string, number>();
  const sweeps: number[] = [];
  const entries: AuditRecord[] = [];
  const revoked = createListeners<Uint8Array | undefined>();
  const key = (hash: Uint8Array): string => Buffer.from(hash).toString("hex");
  return {
    all,
    sweeps,
    entries,
    insert: async (token, entry) => {
      all.set(key(token.hash), token);
      entries.push(entry);
    },
    find: async (hash) => all.get(key(hash)),
    findStored: async (hash) => all.get(key(hash)),
    get: async (id) => all.values().find((token) => token.id === id),
    list: async () => ({
      tokens: [...all.values()].map((token): ListedToken => ({ ...token, lastUsedAtMs: uses.get(token.id) })),
      next: undefined,
    }),
    async remove(selector, entry) {
      const removed = [...all.values()].filter(
        (token) =>
          selector === "all" ||
          ("hash" in selector && key(selector.hash) === key(token.hash)) ||
          ("id" in selector && selector.id === token.id) ||
          ("username" in selector && selector.username === token.username),
      );
      for (const { hash } of removed) {
        all.delete(key(hash));
        revoked.notify(hash);
      }
      if (removed.length > 0) {
        entries.push({ ...entry, count: removed.length });
      }
      return removed.length;
    },
    removeExpired: async (nowMs) => {
      sweeps.push(nowMs);
      for (const [hash, { expiresAtMs }] of all) {
        if (expiresAtMs <= nowMs) {
          all.delete(hash);
        }
      }
    },
    async updateSession({ hash, from, to }) {
      const token = all.get(key(hash));
      if (token?.session === undefined || token.session !== from) {
        return false;
      }
      all.set(key(hash), { ...token, session: to });
      return true;
    },
    async recordUses(written) {
      for (const [id, atMs] of written) {
        uses.set(id, atMs);
      }
    },
    onRevoked: (listener) => revoked.add(listener),
    isCurrent: () => true,
  };
}
