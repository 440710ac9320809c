import { Registry } from "prom-client";
import { expect, test } from "vitest";
import { FlowgateError } from "@flowgate/flows/errors";
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
  const { measure } = createStoreMetrics(registry);
  const find = measure(async (name) => `found ${String(name)}`, "things.find");
  const fail = measure(async (at, signal) => {
    (signal as AbortSignal | undefined)?.throwIfAborted();
    throw failures[at as number] as Error;
  }, "things.fail");

  expect(await find("it")).toBe("found it");
  await expect(fail(0)).rejects.toBe(failures[0]);
  await expect(fail(1)).rejects.toBe(failures[1]);
  await expect(fail(2)).rejects.toBe(failures[2]);
  await expect(fail(2, AbortSignal.abort())).rejects.toThrow("aborted");

  expect(await counts(registry)).toEqual([
    'flowgate_store_duration_seconds_count{operation="things.find",outcome="ok"} 1',
    'flowgate_store_duration_seconds_count{operation="things.fail",outcome="ok"} 0',
    'flowgate_store_duration_seconds_count{operation="things.fail",outcome="refused"} 2',
    'flowgate_store_duration_seconds_count{operation="things.fail",outcome="error"} 2',
  ]);
});
