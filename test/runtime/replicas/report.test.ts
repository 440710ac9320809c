import { expect, test } from "vitest";
import { createListeners } from "../../../src/base/listeners.ts";
import { reportReplica } from "../../../src/runtime/replicas/report.ts";
import type { DeploymentResult, RevisionResult, RuntimeState } from "../../../src/runtime/runtime.ts";
import { revision } from "../builders.ts";
import { createMemoryCluster } from "./memory-cluster.ts";

test("reports what the runtime runs, at each change", () => {
  const member = createMemoryCluster().join();
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
  report({ outcome: "crashed", missingTypes: [], message });
  expect(reported()?.run).toEqual({ ...run, outcome: "crashed", message: "it crashed; the log has the error" });
  incompleteSeq = 7;
  change("standby");
  expect(member.replicas()).toMatchObject([{ state: "standby", incompleteSeq: 7 }]);
  reporting[Symbol.dispose]();
  change("running");
  expect(reported()?.state).toBe("standby");
});
