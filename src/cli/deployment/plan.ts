import type { PlanFlowsResponse } from "@flowgate/client";
import type { ClientContext } from "../client/client-action.ts";
import { explainConflict } from "./conflict.ts";
import { deploymentType } from "./fields.ts";
import type { DeploymentFlags } from "./flags.ts";
import type { FlowsInput } from "./read-flows.ts";

export type PlanFlags = Pick<DeploymentFlags, "type"> & { readonly merge?: true };

/** Asks the server what a deployment would do. */
export async function planFlows(
  { session, progress }: ClientContext,
  { flows, rev, credentials }: FlowsInput,
  { merge, ...flags }: PlanFlags,
): Promise<PlanFlowsResponse> {
  // What is merged are the changes since `rev`. Otherwise, it has to be active.
  const start = rev === undefined ? {} : merge === true ? { base: rev } : { rev };
  const request = {
    flows: [...flows],
    ...(credentials !== undefined && { credentials }),
    deploymentType: deploymentType(flags),
    ...start,
  };
  try {
    return await progress.during("Planning", () => session.flows.planFlows(request));
  } catch (error) {
    throw explainConflict(error);
  }
}

export function hasChanges({ diff }: Pick<PlanFlowsResponse, "diff">): boolean {
  return diff !== undefined && diff.containers.length > 0;
}
