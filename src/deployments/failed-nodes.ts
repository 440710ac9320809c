import type { DeploymentResult } from "../runtime/runtime.ts";

/** Why a result is not flawless although the flows are running; undefined: it is. */
export function describeFailedNodes({ failedNodes = [] }: DeploymentResult): string | undefined {
  return failedNodes.length === 0
    ? undefined
    : `nodes logged errors while they were started: ${failedNodes.join(", ")}`;
}
