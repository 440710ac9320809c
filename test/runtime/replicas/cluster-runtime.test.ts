import { expect, test } from "vitest";
import { createClusterRuntime } from "../../../src/runtime/replicas/cluster-runtime.ts";
import { pending, running } from "../../../src/runtime/deployment.ts";
import type { DeploymentResult, Runtime } from "../../../src/runtime/runtime.ts";
import { revision } from "../builders.ts";
import { createMemoryCluster, type Member } from "./memory-cluster.ts";
import { run, status } from "./statuses.ts";

/** The runtimes of all replicas, as a replica sees them whose own result is `own`. */
function runtimesOf(member: Member, own: DeploymentResult): Pick<Runtime, "apply" | "release"> {
  return createClusterRuntime({ runtime: { apply: async () => own }, cluster: member, deadlineMs: 600_000 });
}

function openPair(): { here: Member; there: Member } {
  const cluster = createMemoryCluster();
  const [here, there] = [cluster.join(), cluster.join()];
  here.report(status("here"));
  there.report(status("there"));
  return { here, there };
}

const second = revision(2, []);

test("waits for the other replicas", async () => {
  const { here, there } = openPair();
  const order: string[] = [];
  const applied = runtimesOf(here, running)
    .apply(second, "full")
    .then((result) => order.push(result.outcome));
  using _ = here.onChange(() => order.push(`seq ${here.replicas()[1]?.run?.seq}`));
  there.report(status("there", { run: run({ seq: 2, outcome: "pending" }) }));
  await new Promise(setImmediate);
  there.report(status("there", { run: run({ seq: 2 }) }));
  await applied;
  expect(order.at(-1)).toBe("running");
  expect(order).toContain("seq 2");
  expect(order.indexOf("running")).toBe(order.length - 1);
});

test("reports the failure of another replica, and its own at once", async () => {
  const { here, there } = openPair();
  const applied = runtimesOf(here, running).apply(second, "full");
  there.report(status("there", { run: run({ seq: 2, outcome: "failed", message: "the tab can't be started" }) }));
  expect(await applied).toEqual({
    outcome: "failed",
    missingTypes: [],
    message: "there: the tab can't be started",
  });
  const failed: DeploymentResult = { outcome: "failed", missingTypes: ["x"], message: "missing node types: x" };
  expect(await runtimesOf(here, failed).apply(revision(3, []), "full")).toEqual({
    ...failed,
    message: "here: missing node types: x",
  });
});

test("does not wait for a replica that has ended", async () => {
  const { here, there } = openPair();
  const applied = runtimesOf(here, running).apply(second, "full");
  there.leave();
  expect((await applied).outcome).toBe("running");
});

test("a replica that runs no flows returns the result of those that do", async () => {
  const { here, there } = openPair();
  here.report(status("here", { state: "standby", run: undefined }));
  const applied = runtimesOf(here, pending).apply(second, "full");
  there.report(status("there", { run: run({ seq: 2 }) }));
  expect((await applied).outcome).toBe("running");
});

test("is pending at once if there are only replicas for the API", async () => {
  const { here, there } = openPair();
  here.report(status("here", { mode: "none", state: "disabled", run: undefined }));
  const applied = runtimesOf(here, pending).apply(second, "full");
  there.leave();
  expect((await applied).outcome).toBe("pending");
  expect((await runtimesOf(here, pending).apply(second, "full")).outcome).toBe("pending");
});

test("is pending at the caller's deadline, when the caller leaves, and after release", async () => {
  const { here } = openPair();
  const runtimes = runtimesOf(here, running);
  expect((await runtimes.apply(second, "full", undefined, { withinMs: 1 })).outcome).toBe("pending");
  expect((await runtimes.apply(second, "full", undefined, { signal: AbortSignal.abort() })).outcome).toBe("pending");
  const applied = runtimes.apply(second, "full");
  runtimes.release();
  expect((await applied).outcome).toBe("pending");
  expect((await runtimes.apply(second, "full")).outcome).toBe("pending");
});

test("a reload is awaited on this replica only", async () => {
  const { here } = openPair();
  expect((await runtimesOf(here, running).apply(second, "reload")).outcome).toBe("running");
});

test("waits for the replica that takes over flows for which this one lacks a node type", async () => {
  const { here, there } = openPair();
  here.report(status("here", { mode: "one" }));
  there.report(status("there", { mode: "one", state: "standby", run: undefined }));
  const failed: DeploymentResult = { outcome: "failed", missingTypes: ["x"], message: "missing node types: x" };
  const applied = runtimesOf(here, failed).apply(second, "full");
  await new Promise(setImmediate);
  here.report(status("here", { mode: "one", state: "standby", run: undefined, incompleteSeq: 2 }));
  there.report(status("there", { mode: "one", state: "starting", run: run({ seq: 2, outcome: "pending" }) }));
  await new Promise(setImmediate);
  there.report(status("there", { mode: "one", run: run({ seq: 2 }) }));
  expect((await applied).outcome).toBe("running");
});
