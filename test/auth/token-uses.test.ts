import { pino } from "pino";
import { expect, test } from "vitest";
import { openTokenUses } from "../../src/auth/token-uses.ts";
import { token } from "./memory-tokens.ts";

const log = pino({ level: "silent" });

test("writes the last uses of tokens together, after the interval and at the end", async () => {
  const written: [string, number][][] = [];
  const first = Promise.withResolvers<void>();
  const store = {
    async recordUses(uses: ReadonlyMap<string, number>) {
      written.push([...uses]);
      first.resolve();
    },
  };
  const [one, two] = [token(), token()];
  {
    await using uses = openTokenUses(store, log, 10);
    uses.record(one, 1);
    uses.record(two, 2);
    uses.record(one, 3);
    expect(written).toEqual([]);
    await first.promise;
    uses.record(two, 4);
  }
  expect(written).toEqual([
    [
      [one.id, 3],
      [two.id, 2],
    ],
    [[two.id, 4]],
  ]);
});

test("writes nothing if no token was used, and continues after a failed write", async () => {
  let writes = 0;
  const failed = Promise.withResolvers<void>();
  const store = {
    async recordUses() {
      writes += 1;
      failed.resolve();
      throw new Error("the disk is full");
    },
  };
  await openTokenUses(store, log)[Symbol.asyncDispose]();
  expect(writes).toBe(0);
  await using uses = openTokenUses(store, log, 1);
  uses.record(token(), 1);
  await failed.promise;
  uses.record(token(), 2);
  await uses[Symbol.asyncDispose]();
  expect(writes).toBe(2);
});
