import type { DeploymentType } from "@flowgate/flows";
import { FlowgateError } from "@flowgate/flows/errors";
import { DeploymentType as DeploymentTypeMessage } from "../../../gen/flowgate/v1/flows_pb.ts";

const deploymentTypes: ReadonlyMap<DeploymentTypeMessage, DeploymentType> = new Map([
  [DeploymentTypeMessage.UNSPECIFIED, "full"],
  [DeploymentTypeMessage.FULL, "full"],
  [DeploymentTypeMessage.NODES, "nodes"],
  [DeploymentTypeMessage.FLOWS, "flows"],
  [DeploymentTypeMessage.RELOAD, "reload"],
]);

/** Throws `invalid_deployment_type` for an unknown number, which an open enum can contain. */
export function parseDeploymentType(value: DeploymentTypeMessage): DeploymentType {
  const type = deploymentTypes.get(value);
  if (type === undefined) {
    throw new FlowgateError(
      "invalid_deployment_type",
      `deployment_type: ${value} is not known; use FULL, NODES, FLOWS or RELOAD`,
    );
  }
  return type;
}
