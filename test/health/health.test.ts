import { describe, expect, test } from "vitest";
import { type HealthFacts, combineHealth, foldHealth } from "../../src/health/health.ts";
import type { Health } from "../../src/store/health.ts";

const nowMs = 10 * 60 * 60_000;
const minuteMs = 60_000;

/** Flows that run without a problem. */
const healthy: HealthFacts = {
  nowMs,
  isStarted: true,
  state: "running",
  stateSinceMs: nowMs - minuteMs,
  message: undefined,
  result: { outcome: "running", missingTypes: [] },
  exits: [],
  failing: [],
  lostReplicas: [],
  fullDisk: undefined,
};

const node = { nodeId: "n", nodeType: "function", flowId: "t" };

function exit(minutesAgo: number) {
  const fault = { node, line: 3, isCertain: true };
  return {
    atMs: nowMs - minutesAgo * minuteMs,
    reason: "out_of_memory",
    message: "it ran out of memory",
    fault,
  } as const;
}

function failing(minutesAgo: number) {
  const lastErrorMs = nowMs - minutesAgo * minuteMs;
  return { node, errors: 7, sinceMs: lastErrorMs - minuteMs, lastErrorMs, message: "no", line: 2 };
}

const failed = { outcome: "failed", missingTypes: [] } as const;

const table: [name: string, facts: Partial<HealthFacts>, state: Health["state"], kinds: string[]][] = [
  ["flows that run", {}, "healthy", []],
  ["a process that starts", { state: "starting", result: undefined }, "starting", []],
  ["a process that ended, before the next one", { state: "restarting", exits: [exit(0)] }, "starting", ["restarted"]],
  ["a process that ended within the hour", { exits: [exit(59)] }, "degraded", ["restarted"]],
  ["a process that ended an hour ago", { exits: [exit(60)] }, "healthy", []],
  ["a crash loop", { state: "safe", exits: [exit(3), exit(1)] }, "failed", ["safe_mode", "restarted"]],
  ["a missing type", { state: "failed", result: { ...failed, missingTypes: ["x"] } }, "failed", ["missing_types"]],
  ["a missing module", { state: "failed", result: { ...failed, lacksModules: true } }, "failed", ["missing_modules"]],
  ["flows that can't start", { state: "failed", result: failed }, "failed", ["not_started"]],
  [
    "a node that did not start",
    { result: { outcome: "degraded", missingTypes: [], message: "function n" } },
    "degraded",
    ["nodes_not_started"],
  ],
  [
    "a node that logged too many errors after its start, 11 minutes ago",
    { result: { outcome: "degraded", missingTypes: [], isLate: true, message: "function n" }, failing: [failing(11)] },
    "healthy",
    [],
  ],
  ["a node that failed 9 minutes ago", { failing: [failing(9)] }, "degraded", ["nodes_failing"]],
  ["a node that failed 10 minutes ago", { failing: [failing(10)] }, "healthy", []],
  ["a lost replica", { lostReplicas: [{ name: "b", lastMs: nowMs - minuteMs }] }, "degraded", ["replica_lost"]],
  ["a full disk", { fullDisk: { freeBytes: 0, totalBytes: 1, sinceMs: nowMs } }, "degraded", ["disk"]],
  [
    "stopped flows, whatever happened before",
    { isStarted: false, exits: [exit(1)], failing: [failing(1)] },
    "stopped",
    [],
  ],
  ["a service that is closing", { state: "stopped" }, "stopped", []],
  ["a replica on standby", { state: "standby", result: undefined }, "failed", ["no_runner"]],
  ["a replica that runs no flows", { state: "disabled", result: undefined }, "failed", ["no_runner"]],
];

describe("the health of", () => {
  for (const [name, facts, state, kinds] of table) {
    test(`${name} is ${state}`, () => {
      const health = foldHealth({ ...healthy, ...facts });
      expect({ state: health.state, kinds: health.conditions.map(({ kind }) => kind) }).toEqual({ state, kinds });
    });
  }
});

test("exits are one condition with their number, the first and last time, and the last reason and node", () => {
  expect(foldHealth({ ...healthy, exits: [exit(30), exit(10), exit(2)] }).conditions).toEqual([
    {
      kind: "restarted",
      sinceMs: nowMs - 30 * minuteMs,
      lastMs: nowMs - 2 * minuteMs,
      count: 3,
      message: "it ran out of memory",
      reason: "out_of_memory",
      node,
      line: 3,
    },
  ]);
});

test("lists at most 20 failing nodes, those with the latest errors", () => {
  const nodes = Array.from({ length: 30 }, (_, index) => ({ ...failing(1), lastErrorMs: nowMs - index }));
  const { conditions } = foldHealth({ ...healthy, failing: nodes.toReversed() });
  expect(conditions.map(({ lastMs }) => lastMs)).toEqual(nodes.slice(0, 20).map(({ lastErrorMs }) => lastErrorMs));
});

describe("with several replicas", () => {
  const standby = foldHealth({ ...healthy, state: "standby", result: undefined });
  const fine = foldHealth(healthy);
  const troubled = foldHealth({ ...healthy, failing: [failing(1)] });

  test("a replica on standby has the health of the one that runs the flows", () => {
    expect(combineHealth([standby, fine])).toEqual(fine);
    expect(combineHealth([standby, troubled])).toEqual(troubled);
  });

  test("there is no runner if all are on standby", () => {
    expect(combineHealth([standby, standby])).toMatchObject({
      state: "failed",
      conditions: [{ kind: "no_runner", sinceMs: healthy.stateSinceMs }],
    });
  });

  test("the worst state counts, and the errors of a node on all replicas are one condition", () => {
    const restarting = foldHealth({ ...healthy, state: "restarting", exits: [exit(0)], failing: [failing(2)] });
    const { state, conditions } = combineHealth([troubled, restarting]);
    expect(state).toBe("starting");
    expect(conditions).toMatchObject([
      { kind: "restarted", count: 1 },
      { kind: "nodes_failing", count: 14, lastMs: nowMs - minuteMs },
    ]);
  });
});
