import { DeploymentOutcome, DeploymentType } from "../../../gen/flowgate/v1/flows_pb.ts";
import type { ListRevisionsRequest } from "../../../gen/flowgate/v1/revisions_pb.ts";
import { outcomes } from "../../deployments/revision-message.ts";
import { FlowgateError } from "../../errors.ts";
import { parseDeploymentType } from "../../flows/deployment-type.ts";
import type { RevisionFilter } from "../../store/flow-store.ts";
import { outcomeStates, type RevisionOutcome } from "../../store/revision.ts";
import { readTimestampMs } from "../timestamp.ts";

export function parseFilter(request: ListRevisionsRequest): RevisionFilter {
  return {
    by: request.user === "" ? undefined : request.user,
    deploymentType:
      request.deploymentType === DeploymentType.UNSPECIFIED ? undefined : parseDeploymentType(request.deploymentType),
    outcome: parseOutcome(request.outcome),
    pinned: request.pinned,
    fromMs: readTimestampMs("startTime", request.startTime),
    untilMs: readTimestampMs("endTime", request.endTime),
  };
}

function parseOutcome(value: DeploymentOutcome): RevisionOutcome["state"] | undefined {
  if (value === DeploymentOutcome.UNSPECIFIED) {
    return undefined;
  }
  const state = outcomeStates.find((each) => outcomes[each] === value);
  if (state === undefined) {
    throw new FlowgateError("invalid_argument", `outcome: revisions have one of ${outcomeStates.join(", ")}`);
  }
  return state;
}
