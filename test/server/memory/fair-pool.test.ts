import { expect, test } from "vitest";
import { FairPool, type Share } from "../../../src/server/memory/fair-pool.ts";

const busy = new Error("busy");

/** A pool of 100 bytes, of which 25 are kept for sources that hold nothing. Grants are recorded in their order. */
function open(waitMs = 60_000) {
  const pool = new FairPool({ capacityBytes: 100, waitMs, createError: () => busy });
  const granted: string[] = [];
  /** `name` is that of the source, followed by what distinguishes its shares. */
  const take = (name: string, bytes: number) => {
    const share: Share = { source: name.charAt(0), bytes: 0 };
    const wait = pool.resize(share, bytes);
    const outcome =
      wait === undefined
        ? void granted.push(name)
        : wait.then(
            () => void granted.push(name),
            (error: Error) => error,
          );
    return { share, outcome, give: () => pool.close(share), resize: (to: number) => pool.resize(share, to) };
  };
  return { granted, take };
}

test("grants without a promise what is free", () => {
  const { take } = open();
  expect([take("a", 50).outcome, take("b", 25).outcome]).toEqual([undefined, undefined]);
});

test("grants a wish that exceeds its limit as far as that goes", () => {
  const { take } = open();
  expect(take("a", 1000).share.bytes).toBe(75);
});

test("keeps a reserve for sources that hold nothing, and for their small shares only", async () => {
  const { take, granted } = open();
  const large = take("a", 75);
  const second = take("a2", 1);
  const otherLarge = take("b", 26);
  expect([take("c", 25).outcome, granted]).toEqual([undefined, ["a", "c"]]);
  large.give();
  await Promise.all([second.outcome, otherLarge.outcome]);
  expect(granted).toEqual(["a", "c", "a2", "b"]);
});

test("serves one source after another, and of each the smallest share first", async () => {
  const { take, granted } = open();
  const held = take("z", 75);
  const waiting = [take("a", 70), take("a large", 75), take("a small", 60), take("b", 75), take("b small", 50)];
  let last = held;
  for (const next of [waiting[2], waiting[4], waiting[0], waiting[3], waiting[1]]) {
    last.give();
    await next?.outcome;
    last = next ?? held;
  }
  expect(granted).toEqual(["z", "a small", "b small", "a", "b", "a large"]);
});

test("serves a large share after a few smaller ones of its source, although others keep arriving", async () => {
  const { take, granted } = open();
  let last = take("a", 75);
  const large = take("a large", 75);
  for (const count of Array.from({ length: 10 }).keys()) {
    const small = take(`a${count}`, 60);
    last.give();
    await Promise.race([large.outcome, small.outcome]);
    last = granted.at(-1) === "a large" ? large : small;
  }
  expect(granted.slice(0, 7)).toEqual(["a", "a0", "a1", "a2", "a3", "a large", "a4"]);
});

test("does not let others overtake a share that does not fit yet", async () => {
  const { take, granted } = open();
  const [one, two] = [take("a", 40), take("a2", 30)];
  const large = take("b", 75);
  const late = take("c", 30);
  one.give();
  expect(granted).toEqual(["a", "a2"]);
  two.give();
  await large.outcome;
  expect(granted).toEqual(["a", "a2", "b"]);
  large.give();
  await late.outcome;
});

test("a share that grows keeps what it holds, and one that shrinks lets others in", async () => {
  const { take } = open();
  const one = take("a", 40);
  const two = take("b", 30);
  const growth = one.resize(60);
  expect(one.share.bytes).toBe(40);
  void two.resize(10);
  await growth;
  expect(one.share.bytes).toBe(60);
});

test("a wait ends with an error when it takes too long, and no longer blocks others", async () => {
  const { take, granted } = open(10);
  const held = take("a", 50);
  const blocked = take("b", 75);
  expect(await blocked.outcome).toBe(busy);
  take("c", 20);
  expect(granted).toEqual(["a", "c"]);
  held.give();
  expect(take("b", 55).outcome).toBeUndefined();
});

test("a share that is closed while it waits is rejected, and takes nothing later", async () => {
  const { take } = open();
  const held = take("a", 75);
  const waiting = take("b", 75);
  waiting.give();
  expect(await waiting.outcome).toMatchObject({ name: "AbortError" });
  held.give();
  expect(take("c", 75).outcome).toBeUndefined();
});
