import { expect, test } from "vitest";
import { Backoff } from "../src/restarts.ts";

/** A Backoff whose clock the test moves. */
function backoffUnderTest(limits: { readonly maxBackoffMs?: number; readonly withinMs?: number } = {}) {
  const { maxBackoffMs = 1, withinMs = 60_000 } = limits;
  let nowMs = 0;
  const backoff = new Backoff(
    { restart: { backoffMs: 1, maxBackoffMs }, safeMode: { exits: 2, withinMs } },
    () => nowMs,
  );
  return {
    backoff,
    pass: (ms: number) => (nowMs += ms),
    exit: (hadFlows = true) => backoff.recordExit({ hadFlows, cause: "it failed" }),
  };
}

test("counts crashes with exits without flows in between", () => {
  const { backoff, exit, pass } = backoffUnderTest();
  const isLoop = (hadFlows: boolean) => {
    exit(hadFlows);
    return backoff.crashLoop !== undefined;
  };
  expect([false, false, true, false, true, false].map((hadFlows) => isLoop(hadFlows))).toEqual([
    false,
    false,
    false,
    false,
    true,
    true,
  ]);
  pass(60_000);
  expect(isLoop(true)).toBe(false);
});

test("counts the exits within the time of safe mode, however long the processes ran", () => {
  const { exit, pass } = backoffUnderTest({ maxBackoffMs: 8 });
  const outcomes = [];
  for (const ranMs of [60_000, 60_000, 59_999]) {
    pass(ranMs);
    outcomes.push(exit());
  }
  expect(outcomes).toEqual([
    { delayMs: 1, cause: "it failed" },
    { delayMs: 1, cause: "it failed" },
    { delayMs: 2, cause: "it ended 2 times within 1 min, most recently because it failed" },
  ]);
});

test("states times that are not whole minutes in seconds, and forgets exits for a new deployment", () => {
  const { backoff, exit } = backoffUnderTest({ withinMs: 1_500 });
  exit();
  expect(exit().cause).toBe("it ended 2 times within 1.5 s, most recently because it failed");
  backoff.reset();
  expect(exit()).toEqual({ delayMs: 1, cause: "it failed" });
});
