import { expect, test, vi } from "vitest";
import { createListeners } from "@flowgate/base/listeners";
import { type ProbationVerdict, type Watched, watchReplicas } from "../../src/deployments/probation-watch.ts";
import type { RevisionEvent } from "../../src/store/flow-store.ts";
import { revision } from "../store/revision.ts";
import { createDesiredState } from "../../packages/runtime/test/desired-state.ts";
import { createMemoryCluster } from "../replicas/memory-cluster.ts";
import { run, status } from "../replicas/statuses.ts";

const longMs = 600_000;

/** Two replicas that run the first revision, and a watch of the second one for `forMs`. */
function openWatched(forMs: number) {
  const desired = createDesiredState();
  const cluster = createMemoryCluster();
  const [here, there] = [cluster.join(), cluster.join()];
  here.report(status("here"));
  there.report(status("there"));
  const revisions = createListeners<RevisionEvent>();
  const none = () => ({ [Symbol.dispose]() {} });
  const watched: Watched = {
    desired,
    store: { active: () => revision(2, []), onRevision: (listener) => revisions.add(listener) },
    runtime: {
      lastResult: () => undefined,
      onResult: none,
      onChange: none,
      status: () => ({ name: "none", version: "0", state: "running", httpPort: 0, message: undefined }),
    },
  };
  const watch = watchReplicas(revision(2, []), forMs, { ...watched, cluster: here });
  return { cluster, here, there, revisions, desired, watch };
}

const second = status("there", { run: run({ seq: 2 }) });

test("a revision is healthy when all replicas have run it for the time", async () => {
  const { here, there, watch } = openWatched(1);
  here.report(second);
  await new Promise(setImmediate);
  there.report(second);
  expect(await watch.verdict).toEqual({ kind: "healthy" });
});

test("a revision has failed when it crashes on one of the replicas, or a node logs an error", async () => {
  const failures: [Parameters<typeof run>[0], ProbationVerdict][] = [
    [
      { seq: 2, outcome: "failed", message: "it exited" },
      { kind: "failed", result: { outcome: "failed", missingTypes: [], message: "there: it exited" } },
    ],
    [
      { seq: 2, outcome: "failed", message: "nodes logged errors" },
      { kind: "failed", result: { outcome: "failed", missingTypes: [], message: "there: nodes logged errors" } },
    ],
  ];
  for (const [failed, verdict] of failures) {
    const { here, there, watch } = openWatched(longMs);
    here.report(second);
    there.report(second);
    await new Promise(setImmediate);
    there.report(status("there", { run: run(failed) }));
    expect(await watch.verdict).toEqual(verdict);
  }
});

test("a replica that joins must run it too", async () => {
  const { cluster, here, there, watch } = openWatched(50);
  const joined = cluster.join();
  joined.report(status("joined", { state: "starting", run: run({ seq: 2, outcome: "pending" }) }));
  here.report(second);
  there.report(second);
  await new Promise(setImmediate);
  joined.report(status("joined", { run: run({ seq: 2, outcome: "failed" }) }));
  expect((await watch.verdict).kind).toBe("failed");
});

test("a newer revision ends the watch, a reload of the same one does not", async () => {
  const { here, there, revisions, watch } = openWatched(longMs);
  revisions.notify({ revision: revision(2, []), isOwn: false, isReload: true });
  here.report(second);
  there.report(second);
  revisions.notify({ revision: revision(3, []), isOwn: false });
  expect(await watch.verdict).toEqual({ kind: "replaced" });
});

test("while the flows are stopped nothing fails, and the time begins when they are started", async () => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  try {
    const { here, there, desired, watch } = openWatched(1_000);
    let verdict: ProbationVerdict | undefined;
    void watch.verdict.then((given) => (verdict = given));
    const afterSecond = async (): Promise<ProbationVerdict | undefined> => {
      await new Promise(setImmediate);
      vi.advanceTimersByTime(1_000);
      await new Promise(setImmediate);
      return verdict;
    };
    here.report(second);
    there.report(second);
    await new Promise(setImmediate);
    desired.set(false);
    expect(await afterSecond()).toBeUndefined();
    there.report(status("there", { state: "stopped", run: undefined, isStopped: true }));
    here.report(status("here", { state: "stopped", run: undefined, isStopped: true }));
    expect(await afterSecond()).toBeUndefined();
    desired.set(true);
    expect(await afterSecond()).toBeUndefined();
    here.report(second);
    there.report(second);
    expect(await afterSecond()).toEqual({ kind: "healthy" });
  } finally {
    vi.useRealTimers();
  }
});
