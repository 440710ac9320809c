import { randomBytes } from "node:crypto";
import { join } from "node:path";
import { expect, test } from "vitest";
import { createListeners } from "@flowgate/base/listeners";
import { createClusterRuntime, followRevisions } from "../../src/replicas/cluster-runtime.ts";
import { type DeploymentResult, type Runtime, pending, running, type Revision } from "@flowgate/runtime";
import type { RevisionEvent } from "../../src/store/flow-store.ts";
import { openSqliteStore } from "../../src/store/sqlite/open-store.ts";
import { createDesiredState } from "../../packages/runtime/test/desired-state.ts";
import { createFolder, draft } from "../store/builders.ts";
import { revision } from "../store/revision.ts";
import { type Member, createMemoryCluster } from "./memory-cluster.ts";
import { run, status } from "./statuses.ts";

/** The runtimes of all replicas, as a replica sees them whose own result is `own`. */
function runtimesOf(
  member: Member,
  own: DeploymentResult,
  desired = createDesiredState(),
): Pick<Runtime, "apply" | "release"> {
  return createClusterRuntime({ runtime: { apply: async () => own }, cluster: member, desired, deadlineMs: 600_000 });
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
  expect(await applied).toEqual({ outcome: "failed", missingTypes: [], message: "there: the tab can't be started" });
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

test("is stopped while the flows are to be stopped, also for callers who wait already", async () => {
  const { here } = openPair();
  const desired = createDesiredState();
  const runtimes = runtimesOf(here, running, desired);
  const applied = runtimes.apply(second, "full");
  desired.set(false);
  expect((await applied).outcome).toBe("stopped");
  expect((await runtimes.apply(revision(3, []), "full")).outcome).toBe("stopped");
});

test("waits for a replica that has not read yet that the flows are to be started", async () => {
  const { here, there } = openPair();
  there.report(status("there", { state: "stopped", run: undefined, isStopped: true }));
  const applied = runtimesOf(here, running).apply(second, "nodes");
  await new Promise(setImmediate);
  there.report(status("there", { state: "starting", run: run({ seq: 2, outcome: "pending" }) }));
  await new Promise(setImmediate);
  there.report(status("there", { run: run({ seq: 2, outcome: "failed", message: "missing node types: x" }) }));
  expect((await applied).outcome).toBe("failed");
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

test("applies revisions of other processes only, as full deployments after a skipped one", async () => {
  await using folder = await createFolder();
  const options = { path: join(folder.path, "flowgate.db"), key: randomBytes(32) };
  await using here = await openSqliteStore(options);
  await using there = await openSqliteStore(options);
  const applied: [Revision, string | undefined][] = [];
  const following = followRevisions(here.flows, {
    async apply(revision, type) {
      applied.push([revision, type]);
      return { outcome: "running", missingTypes: [] };
    },
  });
  const commitTo = (store: typeof here, deploymentType: "nodes" | "full") =>
    store.flows.commit(draft(store.flows.active().rev, { deploymentType }));

  await commitTo(there, "full");
  const second = await commitTo(there, "nodes");
  // A store with a single writer reads it on `reload`; one with several writers would do so by itself.
  await here.flows.reload();
  const third = await commitTo(there, "nodes");
  await here.flows.reload();
  expect(applied).toEqual([
    [second, "full"],
    [third, "nodes"],
  ]);

  await commitTo(here, "nodes");
  expect(applied).toHaveLength(2);
  await there.flows.reload();
  const last = await commitTo(there, "nodes");
  await here.flows.reload();
  expect(applied.slice(2)).toEqual([[last, "nodes"]]);

  following[Symbol.dispose]();
  await commitTo(there, "nodes");
  await here.flows.reload();
  expect(applied).toHaveLength(3);
});

test("reloads the flows when another process does", async () => {
  const applied: string[] = [];
  const events = createListeners<RevisionEvent>();
  using _ = followRevisions(
    { active: () => revision(1, []), onRevision: (listener) => events.add(listener) },
    {
      async apply({ rev }, type) {
        applied.push(`${rev} ${type}`);
        return { outcome: "running", missingTypes: [] };
      },
    },
  );
  events.notify({ revision: revision(1, []), isOwn: false, isReload: true });
  expect(applied).toEqual(["r1 reload"]);
});
