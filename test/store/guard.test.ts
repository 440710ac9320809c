import { expect, test } from "vitest";
import { Operations, wrapStore } from "../../src/store/guard.ts";
import { openStore } from "../../src/store/open-store.ts";
import type { TokenStore } from "../../src/store/token-store.ts";
import { createMemoryTokens, token } from "../auth/memory-tokens.ts";
import { createSqlitePlace, record } from "./stores.ts";

test("wraps every operation of a store, and no method that reads memory", async () => {
  await using place = await createSqlitePlace();
  await using store = await openStore(place);
  const called: string[] = [];
  const wrapped: string[] = [];
  const wrappedStore = wrapStore(store, (operation, name) => {
    wrapped.push(name);
    return (...parameters) => {
      called.push(name);
      return operation(...parameters);
    };
  });
  const { flows, modules, proposals, desired, tokens, audit, documents, context, settings, logins } = wrappedStore;
  const parts = { flows, modules, proposals, desired, tokens, audit, documents, context, settings, logins };
  const names = Object.entries(parts).flatMap(([part, methods]) =>
    Object.keys(methods).map((name) => `${part}.${name}`),
  );
  const inMemory = [
    "flows.active",
    "flows.onCredentials",
    "flows.onRevision",
    "flows.unclaimedCredentials",
    "modules.onChange",
    "desired.current",
    "desired.onChange",
    "settings.current",
    "tokens.onRevoked",
    "tokens.isCurrent",
  ];
  expect(wrapped.toSorted()).toEqual(names.filter((name) => !inMemory.includes(name)).toSorted());
  expect(wrapped).toEqual(expect.arrayContaining(["flows.commit", "flows.catchUp", "tokens.find", "logins.begin"]));

  expect(flows.active()).toBe(store.flows.active());
  expect(called).toEqual([]);
  expect(await flows.find(flows.active().rev)).toBe(flows.active());
  await audit.append([record]);
  expect(called).toEqual(["flows.find", "audit.append"]);
});

test("wraps the methods of a class, with their object", async () => {
  await using place = await createSqlitePlace();
  await using store = await openStore(place);
  class Tokens {
    readonly #stored = createMemoryTokens();
    async insert(...parameters: Parameters<TokenStore["insert"]>) {
      await this.#stored.insert(...parameters);
    }
    async find(hash: Uint8Array) {
      return this.#stored.find(hash);
    }
    isCurrent() {
      return this.#stored.isCurrent();
    }
  }
  const own = { ...store, tokens: new Tokens() as unknown as TokenStore };
  const { tokens } = wrapStore(own, (operation) => operation);
  const stored = token();
  await tokens.insert(stored, record);
  expect(await tokens.find(stored.hash)).toEqual(stored);
  expect(tokens.isCurrent()).toBe(true);
});

test("closing waits for the operations in progress, and rejects further ones", async () => {
  const operations = new Operations((error) => new Error(`converted: ${String(error)}`));
  const { promise, resolve } = Promise.withResolvers<string>();
  const running = operations.run(() => promise);
  let isClosed = false;
  const closing = operations.close().then(() => (isClosed = true));
  await expect(operations.run(async () => "late")).rejects.toMatchObject({
    reason: "unavailable",
    message: "the store is closed",
  });
  expect(isClosed).toBe(false);
  resolve("done");
  expect(await running).toBe("done");
  await closing;
  expect(isClosed).toBe(true);
});

test("converts the errors of operations", async () => {
  const operations = new Operations((error) => new Error(`converted: ${String(error)}`));
  const failing = operations.run(async () => {
    throw new Error("a cause");
  });
  await expect(failing).rejects.toThrow("converted: Error: a cause");
});
