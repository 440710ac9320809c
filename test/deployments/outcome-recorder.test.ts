import { randomBytes } from "node:crypto";
import { join } from "node:path";
import { pino } from "pino";
import { expect, test } from "vitest";
import { openOutcomeRecorder } from "../../src/deployments/outcome-recorder.ts";
import { createListeners } from "@flowgate/base/listeners";
import { HealthMonitor } from "../../src/health/monitor.ts";
import { NodeStates } from "../../src/events/node-states.ts";
import type { DeploymentResult, RevisionResult, RuntimeStatus } from "@flowgate/runtime";
import type { Cluster } from "../../src/store/cluster.ts";
import type { Revision } from "../../src/store/revision.ts";
import { openSqliteStore } from "../../src/store/sqlite/open-store.ts";
import { createMemoryCluster } from "../replicas/memory-cluster.ts";
import { run, status } from "../replicas/statuses.ts";
import { createFolder, draft } from "../store/builders.ts";

const running: DeploymentResult = { outcome: "running", missingTypes: [] };

/** A recorder with a runtime whose states and results are set by the test. */
async function openRecorder(cluster?: Cluster) {
  await using stack = new AsyncDisposableStack();
  const folder = stack.use(await createFolder());
  const store = stack.use(await openSqliteStore({ path: join(folder.path, "flowgate.db"), key: randomBytes(32) }));
  const { flows, desired } = store;
  const results = createListeners<RevisionResult>();
  const changes = createListeners<void>();
  let current: RuntimeStatus = { name: "none", version: "0", state: "starting", httpPort: 0, message: undefined };
  let last: RevisionResult | undefined;
  const runtime = {
    status: () => current,
    lastResult: () => last,
    onResult: (listener: (result: RevisionResult) => void) => results.add(listener),
    onChange: (listener: () => void) => changes.add(listener),
  };
  const set = (change: Partial<RuntimeStatus>): void => {
    current = { ...current, reason: undefined, message: undefined, ...change };
    changes.notify();
  };
  const monitor = stack.use(
    new HealthMonitor({
      runtime,
      nodes: new NodeStates(),
      store: flows,
      desired,
      cluster,
      disk: async () => undefined,
    }),
  );
  const log = pino({ level: "silent" });
  const recorder = stack.use(openOutcomeRecorder({ store: flows, runtime, monitor, cluster, desired, log }));
  const owned = stack.move();
  return {
    flows,
    set,
    /** As the runtime does it: the state, then the result. */
    report(revision: Revision, result: DeploymentResult, change: Partial<RuntimeStatus> = { state: "running" }): void {
      last = { revision, result };
      set(change);
      results.notify(last);
    },
    commit: (change: object = {}) => flows.commit({ ...draft(flows.active().rev), ...change }),
    /** Resolves with the entry after all notifications and writes. */
    async entry(rev: string) {
      await new Promise(setImmediate);
      await recorder.flush();
      return flows.findEntry(rev);
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

test("records a failure of one of several replicas at once, and that flows run when they do on all", async () => {
  const cluster = createMemoryCluster();
  const [here, there] = [cluster.join(), cluster.join()];
  await using tested = await openRecorder(here);
  const revision = await tested.commit();
  const { rev, seq } = revision;
  const outcome = async () => (await tested.entry(rev))?.outcome;
  here.report(status("here", { run: run({ rev, seq }) }));
  there.report(status("there", { run: run({ seq: seq - 1 }) }));

  tested.report(revision, running);
  expect((await outcome())?.state).toBe("pending");
  there.report(status("there", { run: run({ rev, seq, outcome: "failed", message: "no" }) }));
  expect(await outcome()).toMatchObject({ state: "failed", message: "there: no" });
  there.report(status("there", { run: run({ rev, seq }) }));
  expect((await outcome())?.state).toBe("running");
});

test("records the health of the active revision, and the exits of its process", async () => {
  await using tested = await openRecorder();
  const revision = await tested.commit();
  const outcome = async () => {
    const { outcome: { state, message } = {}, restarts } = (await tested.entry(revision.rev)) ?? {};
    return [state, message, restarts];
  };
  tested.report(revision, running);
  expect(await outcome()).toEqual(["running", undefined, 0]);

  const message = "it ran out of memory";
  tested.report(
    revision,
    { outcome: "failed", missingTypes: [], message },
    { state: "restarting", reason: "out_of_memory", message },
  );
  expect(await outcome(), "it may run again in a moment").toEqual(["running", undefined, 1]);
  tested.report(revision, running);
  expect(await outcome()).toEqual(["degraded", `the runtime process ended: ${message}`, 1]);

  tested.set({ state: "restarting", reason: "out_of_memory", message });
  tested.report(
    revision,
    { outcome: "failed", missingTypes: [], message },
    { state: "safe", reason: "safe_mode", message },
  );
  expect(await outcome()).toEqual(["failed", message, 2]);
});

test("a revision that fails at its first start has failed at once", async () => {
  await using tested = await openRecorder();
  const revision = await tested.commit();
  const message = "it blocked the event loop";
  tested.report(
    revision,
    { outcome: "failed", missingTypes: [], message },
    { state: "restarting", reason: "blocked", message },
  );
  expect(await tested.entry(revision.rev)).toMatchObject({ outcome: { state: "failed", message }, restarts: 1 });
});

test.each(["undo", "automatic_undo"] as const)("a revision is undone by an %s, and keeps its reason", async (cause) => {
  await using tested = await openRecorder();
  const first = await tested.commit();
  tested.report(first, running);
  const second = await tested.commit();
  tested.report(second, { outcome: "degraded", missingTypes: [], message: "function f" });
  await tested.entry(second.rev);
  const third = await tested.commit({ cause });
  tested.report(third, running);
  expect((await tested.entry(second.rev))?.outcome).toEqual({
    state: "undone",
    message: "function f",
    missingTypes: [],
  });
  expect((await tested.entry(first.rev))?.outcome.state).toBe("running");
  expect((await tested.entry(third.rev))?.outcome.state).toBe("running");
});
