import { expect, test } from "vitest";
import { createListeners } from "@flowgate/base/listeners";
import { combineRuns, reportReplica } from "../../src/replicas/runs.ts";
import type { DeploymentResult, RevisionResult, RuntimeState } from "@flowgate/runtime";
import type { Replica } from "../../src/store/cluster.ts";
import { revision } from "../store/revision.ts";
import { createDesiredState } from "../../packages/runtime/test/desired-state.ts";
import { createMemoryCluster } from "./memory-cluster.ts";
import { replica, run } from "./statuses.ts";

const failed = run({ outcome: "failed", message: "missing node types: x", missingTypes: ["x"] });

const incomplete = (name: string): Replica =>
  replica(name, { mode: "one", state: "failed", run: failed, incompleteSeq: 1 });
const standby = (name: string, incompleteSeq?: number): Replica =>
  replica(name, { mode: "one", state: "standby", run: undefined, incompleteSeq });

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
  ["one has failed", [replica("a"), replica("b", { run: run({ outcome: "failed" }) })], "failed"],
  ["one hands it over to another", [incomplete("a"), standby("b", undefined)], undefined],
  ["one lacks a type for it, and so does the other", [incomplete("a"), standby("b", 1)], "failed"],
  ["one lacks a type for it, and the other did for an earlier one", [incomplete("a"), standby("b", 0)], undefined],
  ["one lacks a type for it, and the other runs no flows", [incomplete("a"), replica("b", { mode: "none" })], "failed"],
  ["one lacks a type for it, and each runs the flows", [{ ...incomplete("a"), mode: "each" }, standby("b")], "failed"],
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

test("reports what the runtime runs, at each change", () => {
  const member = createMemoryCluster().join();
  const desired = createDesiredState();
  const changes = createListeners<void>();
  const results = createListeners<RevisionResult>();
  let state: RuntimeState = "starting";
  let message: string | undefined;
  let last: RevisionResult | undefined;
  let incompleteSeq: number | undefined;
  const reporting = reportReplica({
    name: "host:1",
    version: "1.2.3",
    mode: "one",
    cluster: member,
    store: { active: () => revision(7, []) },
    desired,
    runtime: {
      status: () => ({ name: "none", version: "0", state, httpPort: 0, message }),
      lastResult: () => last,
      incompleteSeq: () => incompleteSeq,
      onChange: (listener) => changes.add(listener),
      onResult: (listener) => results.add(listener),
    },
  });
  const reported = () => member.replicas().map(({ state, run }) => ({ state, run }))[0];
  const change = (next: RuntimeState, why?: string) => {
    state = next;
    message = why;
    changes.notify();
  };
  const run = { rev: "r7", seq: 7, missingTypes: [], message: undefined };

  expect(member.replicas()).toMatchObject([{ name: "host:1", version: "1.2.3", mode: "one", isSelf: true }]);
  expect(reported()).toEqual({ state: "starting", run: { ...run, outcome: "pending" } });
  change("standby");
  expect(reported()).toEqual({ state: "standby", run: undefined });
  state = "running";
  const report = (result: DeploymentResult) => {
    last = { revision: revision(7, []), result };
    results.notify(last);
  };
  report({ outcome: "running", missingTypes: [] });
  expect(reported()?.run).toEqual({ ...run, outcome: "running" });
  change("restarting", "it crashed: Error: secret");
  report({ outcome: "failed", missingTypes: [], message });
  expect(reported()?.run).toEqual({ ...run, outcome: "failed", message: "it crashed; the log has the error" });
  incompleteSeq = 7;
  change("standby");
  expect(member.replicas()).toMatchObject([{ state: "standby", incompleteSeq: 7 }]);
  desired.set(false);
  expect(member.replicas()).toMatchObject([{ isStopped: true }]);
  desired.set(true);
  expect(member.replicas()[0]).not.toHaveProperty("isStopped");
  reporting[Symbol.dispose]();
  change("running");
  expect(reported()?.state).toBe("standby");
});
