import { expect, test } from "vitest";
import { ContextValues } from "../src/context-values.ts";
import type { ContextChange, ContextValue } from "../src/storage.ts";

/** Values of a database that writes nothing until `open` is called. */
async function createValues(stored: readonly ContextValue[] = []) {
  const written: ContextChange[] = [];
  const warnings: string[] = [];
  const opened = Promise.withResolvers<void>();
  const values = new ContextValues({
    database: {
      read: async () => stored,
      async write(changes) {
        await opened.promise;
        written.push(...changes);
        return true;
      },
    },
    token: undefined,
    log: ({ message }) => void warnings.push(message),
  });
  await values.read(new AbortController().signal);
  /** As the runtime process sends it. */
  const send = (changes: readonly (readonly [key: string, json: string | null])[]): void => {
    const json = JSON.stringify(changes.map(([key, value]) => ["default", "global", key, value]));
    values.handlePart({ kind: "context", part: Buffer.from(json).toString("base64"), isLast: true });
  };
  return { values, written, warnings, send, open: opened.resolve };
}

const flushMs = 60_000;

test("only the newest value of each key is written", async () => {
  const { values, written, send, open } = await createValues();
  // Being written.
  send([["first", "1"]]);
  send([["n", "1"]]);
  send([
    ["n", "2"],
    ["gone", "1"],
  ]);
  send([["gone", null]]);
  open();
  await values.flush(flushMs);
  expect(written.map(({ key, json }) => [key, json])).toEqual([
    ["first", "1"],
    ["n", "2"],
    ["gone", undefined],
  ]);
});

test("the removal of values that there are not is not written", async () => {
  const { values, written, send, open } = await createValues([
    { store: "default", scope: "global", key: "stored", json: "1" },
  ]);
  open();
  send(Array.from({ length: 1_000 }, (_, n) => [`absent${n}`, null] as const));
  send([["stored", null]]);
  await values.flush(flushMs);
  expect(written.map(({ key }) => key)).toEqual(["stored"]);
});

test("changes of a flow that adds and removes values faster than they are written are limited", async () => {
  const { values, written, warnings, send, open } = await createValues();
  const size = 2_500;
  for (let start = 0; start < 105_000; start += size) {
    send(
      Array.from({ length: size }, (_, at) => `k${start + at}`).flatMap((key) => [[key, "1"] as const, [key, null]]),
    );
  }
  expect(warnings).toEqual([expect.stringMatching(/^the context in the store is full \(100000 values/)]);
  open();
  await values.flush(flushMs);
  // Of those that were being written, some more.
  expect(written.length).toBeGreaterThanOrEqual(100_000);
  expect(written.length).toBeLessThanOrEqual(100_500);
});
