import type { Runtime } from "../runtime.ts";
import type { Cluster, ReplicaStatus } from "../../store/cluster.ts";
import type { FlowStore } from "../../store/flow-store.ts";
import { runOf } from "./runs.ts";

type ReportOptions = Pick<ReplicaStatus, "name" | "version" | "mode"> & {
  readonly cluster: Pick<Cluster, "report">;
  readonly runtime: Pick<Runtime, "status" | "lastResult" | "incompleteSeq" | "onChange" | "onResult">;
  readonly store: Pick<FlowStore, "active">;
};

/** Reports this replica to the others, now and after each change of its runtime. Disposing ends that. */
export function reportReplica({ cluster, runtime, store, ...replica }: ReportOptions): Disposable {
  const report = (): void =>
    cluster.report({
      ...replica,
      state: runtime.status().state,
      run: runOf(runtime, store.active()),
      incompleteSeq: runtime.incompleteSeq(),
    });
  const subscriptions = new DisposableStack();
  subscriptions.use(runtime.onChange(report));
  subscriptions.use(runtime.onResult(report));
  report();
  return subscriptions;
}
