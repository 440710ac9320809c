import { randomUUID } from "node:crypto";
import { type DeploymentType, DeploymentTypeSchema, OnFailure } from "@flowgate/client";
import { enumValue } from "../output/enum-word.ts";
import type { DeploymentFlags } from "./flags.ts";

/** The fields that all requests for a deployment have. */
export function deploymentFields({ message, wait, undoOnFailure, ...flags }: DeploymentFlags) {
  return {
    deploymentType: deploymentType(flags),
    ...(message !== undefined && { message }),
    ...(wait !== undefined && { wait }),
    ...(undoOnFailure === true && { onFailure: OnFailure.UNDO }),
    // A request that is sent again, because its response was lost, deploys nothing.
    idempotencyKey: randomUUID(),
  };
}

export function deploymentType({ type = "" }: Pick<DeploymentFlags, "type">): DeploymentType {
  return enumValue(DeploymentTypeSchema, type);
}
