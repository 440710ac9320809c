import { expect, test } from "vitest";
import { combineRuns } from "../../src/replicas/runs.ts";
import type { Replica } from "../../src/store/cluster.ts";
import { replica, run } from "./statuses.ts";

const failed = run({ outcome: "failed", message: "missing node types: x", missingTypes: ["x"] });

test.each<[string, Replica[], string | undefined]>([
  ["there is no replica", [], undefined],
  ["none runs flows", [replica("a", { state: "standby", run: undefined })], undefined],
  ["all run it", [replica("a"), replica("b", { run: run({ seq: 2 }) })], "running"],
  ["one runs an earlier revision", [replica("a"), replica("b", { run: run({ seq: 0 }) })], undefined],
  ["one has failed with an earlier revision", [replica("a"), replica("b", { run: { ...failed, seq: 0 } })], undefined],
  ["one is starting it", [replica("a"), replica("b", { run: run({ outcome: "pending" }) })], undefined],
  [
    "one has failed, another is starting it",
    [replica("a", { run: run({ outcome: "pending" }) }), replica("b", { run: failed })],
    "failed",
  ],
  ["one has crashed", [replica("a"), replica("b", { run: run({ outcome: "crashed" }) })], "crashed"],
  ["one that has failed is stopped", [replica("a"), replica("b", { state: "stopped", run: failed })], "running"],
])("the result of a revision if %s", (_, replicas, outcome) => {
  expect(combineRuns(replicas, 1)?.outcome).toBe(outcome);
});

test("a failure names the replica, and the missing types", () => {
  expect(combineRuns([replica("a"), replica("b", { run: failed })], 1)).toEqual({
    outcome: "failed",
    missingTypes: ["x"],
    message: "b: missing node types: x",
  });
});
