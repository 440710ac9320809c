import { useQuery } from "@connectrpc/connect-query";
import { type GetRuntimeResponse, RuntimeService, RuntimeState } from "@flowgate/client";

/** The states in which the replica runs no flows. */
const idleStates: ReadonlySet<RuntimeState> = new Set([
  RuntimeState.STANDBY,
  RuntimeState.DISABLED,
  RuntimeState.STOPPED,
]);

/** The polling interval of data without events. */
const pollMs = 15_000;

/** True if the replica runs the flows: the others don't know the states of their nodes. */
export function runsFlows(runtime: GetRuntimeResponse | undefined): boolean {
  return runtime?.started === true && !idleStates.has(runtime.runtime?.state ?? RuntimeState.UNSPECIFIED);
}

/** The runtime of the replica that answers; undefined until it is known, and for callers who may not read it. */
export function useRuntime(isPermitted: boolean): GetRuntimeResponse | undefined {
  const { data } = useQuery(RuntimeService.method.getRuntime, {}, { enabled: isPermitted, refetchInterval: pollMs });
  return isPermitted ? data : undefined;
}
