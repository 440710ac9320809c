import type { HandlerContext } from "@connectrpc/connect";
import { flowsStopped, noRuntime, type Procedure, type Runtime } from "@flowgate/runtime";
import { runnersOf } from "../replicas/runs.ts";
import type { Cluster } from "../store/cluster.ts";
import type { DesiredStateStore } from "../store/desired-state.ts";
import { runtimeTimeoutMs } from "./deployment-request.ts";

export type Runner = {
  readonly runtime: Pick<Runtime, "status" | "call">;
  readonly cluster: Pick<Cluster, "replicas"> | undefined;
  readonly desired: Pick<DesiredStateStore, "current">;
};

/** Calls the flows of this replica, whose name the result has if there can be others. */
export async function callRunner<Argument, Result>(
  { runtime, cluster, desired }: Runner,
  procedure: Procedure<Argument, Result>,
  argument: Argument,
  context: Pick<HandlerContext, "timeoutMs" | "signal">,
): Promise<{ readonly result: Result; readonly replica: string | undefined }> {
  assertRunner({ runtime, cluster, desired });
  const result = await runtime.call(procedure, argument, {
    withinMs: runtimeTimeoutMs(context.timeoutMs()),
    signal: context.signal,
  });
  return { result, replica: nameOfSelf(cluster) };
}

export function nameOfSelf(cluster: Pick<Cluster, "replicas"> | undefined): string | undefined {
  return cluster?.replicas().find(({ isSelf }) => isSelf)?.name;
}

/** Throws `flows_stopped` or `no_runtime` if this replica does not run the flows. */
export function assertRunner({
  runtime,
  cluster,
  desired,
}: Pick<Runner, "cluster" | "desired"> & { readonly runtime: Pick<Runtime, "status"> }): void {
  if (!desired.current().isStarted) {
    throw flowsStopped();
  }
  const runners = runnersOf(cluster?.replicas() ?? []).map(({ name }) => name);
  switch (runtime.status().state) {
    case "disabled":
      throw noRuntime("this replica never runs flows (runtime.mode: none)", runners);
    case "standby":
      throw noRuntime("another replica runs the flows (runtime.mode: one)", runners);
    case "stopped":
      throw noRuntime("the service is stopping");
    default:
  }
}
