import { expect, test } from "vitest";
import type { StoreLocation } from "./contract.ts";

const price = { store: "shared", scope: "global", key: "price", json: '{"apple":1.5}' };

/** The contract of `ContextStore`. */
export function contextContract(createLocation: () => Promise<StoreLocation>): void {
  test("values of context are kept by store, scope and key, with any text", async () => {
    await using location = await createLocation();
    const odd = { ...price, scope: "\0 \ud800:ä", key: "__proto__", json: '"\\u0000"' };
    {
      await using store = await location.open();
      expect(await store.context.read()).toEqual([]);
      expect(await store.context.write([price, { ...price, store: "other" }, odd], undefined)).toBe(true);
    }
    await using store = await location.open();
    expect(await store.context.read()).toEqual([price, { ...price, store: "other" }, odd]);
  });

  test("a value replaces the one before it, and can be removed", async () => {
    await using location = await createLocation();
    await using store = await location.open();
    const many = Array.from({ length: 1_200 }, (_, at) => ({ ...price, key: `key ${at}`, json: `${at}` }));
    await store.context.write([price, ...many], undefined);
    const removed = [price, ...many.slice(1)].map((value) => ({ ...value, json: undefined }));
    await store.context.write(
      [...removed, { ...price, json: "2" }, { ...price, key: "absent", json: undefined }],
      undefined,
    );
    expect(await store.context.read()).toEqual([
      { ...price, key: "key 0", json: "0" },
      { ...price, json: "2" },
    ]);
  });
}
