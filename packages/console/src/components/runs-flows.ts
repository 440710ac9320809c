import { useQuery } from "@connectrpc/connect-query";
import { type GetRuntimeResponse, RuntimeService, RuntimeState } from "@flowgate/client";

const elsewhere: ReadonlySet<RuntimeState> = new Set([
  RuntimeState.STANDBY,
  RuntimeState.DISABLED,
  RuntimeState.STOPPED,
]);

/** Whether the replica runs the flows: others know no states of nodes. */
export function runsFlows({ started, runtime }: GetRuntimeResponse): boolean {
  return started && !elsewhere.has(runtime?.state ?? RuntimeState.UNSPECIFIED);
}

/** Whether this replica does; false until it is known, and for callers who may not read it. */
export function useRunsFlows(isPermitted: boolean): boolean {
  const { data } = useQuery(RuntimeService.method.getRuntime, {}, { enabled: isPermitted });
  return data !== undefined && runsFlows(data);
}
