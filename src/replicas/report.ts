import { outcomeMessage } from "../runtime/outcome-message.ts";
import type { Runtime } from "../runtime/runtime.ts";
import type { Cluster, ReplicaRun, ReplicaStatus } from "../store/cluster.ts";
import type { FlowStore } from "../store/flow-store.ts";
import { isRunnerState } from "./runs.ts";

type ReportOptions = Pick<ReplicaStatus, "name" | "version" | "mode"> & {
  readonly cluster: Pick<Cluster, "report">;
  readonly runtime: Pick<Runtime, "status" | "lastResult" | "onChange" | "onResult">;
  readonly store: Pick<FlowStore, "active">;
};

/** Reports this replica to the others, now and after each change of its runtime. Disposing ends that. */
export function reportReplica({ cluster, runtime, store, ...replica }: ReportOptions): Disposable {
  const report = (): void =>
    cluster.report({ ...replica, state: runtime.status().state, run: describeRun(runtime, store) });
  const subscriptions = new DisposableStack();
  subscriptions.use(runtime.onChange(report));
  subscriptions.use(runtime.onResult(report));
  report();
  return subscriptions;
}

function describeRun(
  runtime: Pick<Runtime, "status" | "lastResult">,
  store: Pick<FlowStore, "active">,
): ReplicaRun | undefined {
  const { state, message } = runtime.status();
  if (!isRunnerState(state)) return undefined;
  const last = runtime.lastResult();
  if (last === undefined) {
    const { rev, seq } = store.active();
    return { rev, seq, outcome: "pending", message: undefined, missingTypes: [] };
  }
  const { rev, seq } = last.revision;
  // After a crash, `lastResult` stays `running` until the restarted process reports a new result.
  const hasCrashed = last.result.outcome === "running" && state === "restarting";
  const result = hasCrashed ? { outcome: "crashed" as const, missingTypes: [], message } : last.result;
  return { rev, seq, outcome: result.outcome, message: outcomeMessage(result), missingTypes: result.missingTypes };
}
