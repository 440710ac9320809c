import { expect, test } from "vitest";
import { Backoff } from "../../src/runtime/restarts.ts";

test("counts crashes with exits without flows in between", async () => {
  const limits = { backoffMs: 1, shortLifeMs: 1_000, maxBackoffMs: 1, safeModeAfter: 2 };
  const backoff = new Backoff(limits);
  const exit = (hadFlows: boolean, flowsRanMs = 0) => {
    backoff.recordExit({ flowsRanMs, hadFlows, cause: "" });
    return backoff.crashLoop !== undefined;
  };
  expect([exit(false), exit(false), exit(true), exit(false), exit(true), exit(false)]).toEqual([
    false,
    false,
    false,
    false,
    true,
    true,
  ]);
  expect(exit(true, 1_000)).toBe(false);
});

test("counts only short runs for the safe mode", () => {
  const backoff = new Backoff({ backoffMs: 1, shortLifeMs: 1_000, maxBackoffMs: 8, safeModeAfter: 2 });
  const exit = (flowsRanMs: number) => backoff.recordExit({ flowsRanMs, hadFlows: true, cause: "it failed" });
  expect([exit(1_000), exit(1_000), exit(999), exit(999)]).toEqual([
    { delayMs: 1, cause: "it failed" },
    { delayMs: 1, cause: "it failed" },
    { delayMs: 2, cause: "it failed" },
    { delayMs: 4, cause: "it ended 2 times in a row, most recently because it failed" },
  ]);
});
