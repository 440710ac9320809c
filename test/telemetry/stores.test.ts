import { Registry } from "prom-client";
import { expect, test } from "vitest";
import { FlowgateError } from "../../src/errors.ts";
import { createStoreMetrics } from "../../src/telemetry/stores.ts";

const counts = async (registry: Registry): Promise<string[]> =>
  (await registry.metrics()).split("\n").filter((line) => line.includes("_count"));

test("measures operations by outcome, and returns their results", async () => {
  const registry = new Registry();
  const failures = [
    new FlowgateError("version_mismatch", "another one came first"),
    new Error("disk full"),
    new FlowgateError("unavailable", "the database is locked"),
  ];
  const store = createStoreMetrics(registry).measure(
    "things",
    {
      find: async (name: string) => `found ${name}`,
      async fail(at: number, signal?: AbortSignal) {
        signal?.throwIfAborted();
        throw failures[at];
      },
      size: () => 3,
      [Symbol.asyncDispose]: async () => {},
    },
    ["find", "fail"],
  );

  expect(await store.find("it")).toBe("found it");
  await expect(store.fail(0)).rejects.toBe(failures[0]);
  await expect(store.fail(1)).rejects.toBe(failures[1]);
  await expect(store.fail(2)).rejects.toBe(failures[2]);
  await expect(store.fail(2, AbortSignal.abort())).rejects.toThrow("aborted");
  expect(store.size()).toBe(3);
  expect(store[Symbol.asyncDispose]).toBeTypeOf("function");

  expect(await counts(registry)).toEqual([
    'flowgate_store_duration_seconds_count{operation="things.find",outcome="ok"} 1',
    'flowgate_store_duration_seconds_count{operation="things.fail",outcome="ok"} 0',
    'flowgate_store_duration_seconds_count{operation="things.fail",outcome="refused"} 2',
    'flowgate_store_duration_seconds_count{operation="things.fail",outcome="error"} 2',
  ]);
});
