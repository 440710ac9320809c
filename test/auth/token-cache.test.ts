import { expect, test } from "vitest";
import { openTokenCache } from "../../src/auth/token-cache.ts";
import type { AuditRecord } from "../../src/store/audit-store.ts";
import type { TokenStore } from "../../src/store/token-store.ts";
import { createListeners } from "@flowgate/base/listeners";
import { origin } from "./collect-events.ts";
import { createMemoryTokens, token } from "./memory-tokens.ts";

const entry: AuditRecord = { kind: "token_revoked", origin };

/** Simulates other processes, which change `memory` with or without a notification. */
function openStore() {
  const memory = createMemoryTokens();
  const notices = createListeners<Uint8Array | undefined>();
  const lookups: Uint8Array[] = [];
  const store: TokenStore = {
    ...memory,
    async find(hash) {
      lookups.push(hash);
      return memory.find(hash);
    },
    async remove(selector) {
      const count = await memory.remove(selector, entry);
      notices.notify(selector !== "all" && "hash" in selector ? selector.hash : undefined);
      return count;
    },
    onRevoked: (listener) => notices.add(listener),
  };
  return { store, memory, notices, lookups };
}

test("looks each token up in the store once, and then returns it synchronously", async () => {
  const { store, lookups } = openStore();
  using cache = openTokenCache(store);
  const [one, two] = [token(), token()];
  await cache.insert(one, entry);
  await cache.insert(two, entry);
  expect(await cache.find(one.hash)).toEqual(one);
  expect(cache.find(new Uint8Array(one.hash))).toEqual(one);
  expect(await cache.find(two.hash)).toEqual(two);
  expect(lookups).toEqual([one.hash, two.hash]);
});

test("looks an unknown token up again", async () => {
  const { store, memory } = openStore();
  using cache = openTokenCache(store);
  const late = token();
  expect(await cache.find(late.hash)).toBeUndefined();
  await memory.insert(late, entry);
  expect(await cache.find(late.hash)).toEqual(late);
});

test("evicts a token that is removed here, and no other", async () => {
  const { store, lookups } = openStore();
  using cache = openTokenCache(store);
  const [one, two] = [token(), token()];
  for (const each of [one, two]) {
    await cache.insert(each, entry);
    await cache.find(each.hash);
  }
  await cache.remove({ hash: one.hash }, entry);
  expect(await cache.find(one.hash)).toBeUndefined();
  expect(cache.find(two.hash)).toEqual(two);
  expect(lookups).toHaveLength(3);
});

test.each(["of that token", "of any token"])(
  "evicts a token that another process removed, at a notification %s",
  async (of) => {
    const { store, memory, notices } = openStore();
    using cache = openTokenCache(store);
    const one = token();
    await cache.insert(one, entry);
    await cache.find(one.hash);
    await memory.remove({ hash: one.hash }, entry);
    notices.notify(of === "of that token" ? one.hash : undefined);
    expect(await cache.find(one.hash)).toBeUndefined();
  },
);

test("does not cache a token that was revoked during the lookup", async () => {
  const { store, memory, notices } = openStore();
  using cache = openTokenCache(store);
  const one = token();
  await cache.insert(one, entry);
  const found = cache.find(one.hash);
  await memory.remove({ hash: one.hash }, entry);
  notices.notify(one.hash);
  await found;
  expect(await cache.find(one.hash)).toBeUndefined();
});

test("looks a cached token up again while the store may have missed its removal", async () => {
  const { store, memory } = openStore();
  let isCurrent = true;
  using cache = openTokenCache({ ...store, isCurrent: () => isCurrent });
  const one = token();
  await cache.insert(one, entry);
  await cache.find(one.hash);
  await memory.remove({ hash: one.hash }, entry);
  expect(cache.find(one.hash)).toEqual(one);
  isCurrent = false;
  expect(await cache.find(one.hash)).toBeUndefined();
});

test("caches no more tokens than its limit", async () => {
  const { store, lookups } = openStore();
  using cache = openTokenCache(store, 2);
  const all = [token(), token(), token()];
  for (const each of all) {
    await cache.insert(each, entry);
    await cache.find(each.hash);
  }
  lookups.length = 0;
  for (const each of all.toReversed()) {
    await cache.find(each.hash);
  }
  expect(lookups).toEqual([all[0]?.hash]);
});

test("unsubscribes from the store when it is disposed", async () => {
  const { store, notices } = openStore();
  const one = token();
  const cache = openTokenCache(store);
  await cache.insert(one, entry);
  await cache.find(one.hash);
  cache[Symbol.dispose]();
  notices.notify(one.hash);
  expect(cache.find(one.hash)).toEqual(one);
});
