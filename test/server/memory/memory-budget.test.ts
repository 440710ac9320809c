import { expect, test } from "vitest";
import { MemoryBudget } from "../../../src/server/memory/memory-budget.ts";

/** Of 1,600 bytes, 400 are for bodies that are received (300 for one client) and 1,200 for decoding (900 for one client). */
const open = (waitMs = 60_000) =>
  new MemoryBudget({ capacityBytes: 1_600, waitMs, createError: () => new Error("busy") });

test("bodies that are received do not delay one that is decoded", () => {
  const budget = open();
  expect(budget.open("a").receive(300)).toBeUndefined();
  expect(budget.open("a").decode(100)).toBeUndefined();
});

test("a body that turns out to be longer gives back what it held before it waits", async () => {
  const budget = open();
  const [one, two] = [budget.open("a"), budget.open("a")];
  expect([one.decode(50), two.decode(50)]).toEqual([undefined, undefined]);
  const [first, second] = [one.decode(100), two.decode(100)];
  await first;
  one.close();
  await second;
});

test("a body that is decoded is no longer one that is received", async () => {
  const budget = open();
  const [one, two] = [budget.open("a"), budget.open("a")];
  void one.receive(300);
  void one.decode(100);
  expect(two.receive(300)).toBeUndefined();
  const wait = two.decode(100);
  expect(budget.open("a").receive(300)).toBeInstanceOf(Promise);
  one.close();
  await wait;
  expect(budget.open("b").receive(100)).toBeUndefined();
});

test("a decoded message holds its document only, and never more than before", async () => {
  const budget = open();
  const [one, two] = [budget.open("a"), budget.open("b")];
  void one.decode(100);
  const wait = two.decode(50);
  one.decoded(50);
  await wait;
  one.decoded(1_000);
  expect(budget.open("c").decode(10)).toBeUndefined();
});

test("what is retained is held after the request has closed", async () => {
  const budget = open(10);
  const one = budget.open("a");
  void one.decode(100);
  const release = one.retain();
  one.close();
  await expect(budget.open("a").decode(100)).rejects.toThrow("busy");
  release();
  expect(budget.open("a").decode(100)).toBeUndefined();
});

test("a request that has ended takes nothing", () => {
  const one = open().open("a");
  one.close();
  expect(() => one.receive(1)).toThrow("the request has ended");
  expect(() => one.decode(1)).toThrow("the request has ended");
});
