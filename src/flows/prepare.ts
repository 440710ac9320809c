import type { SetFlowsRequest } from "../../gen/flowgate/v1/flows_pb.ts";
import { FlowgateError } from "../errors.ts";
import type { CredentialSets, DeploymentType } from "./configuration.ts";
import { type SubmittedCredentials, type Decrypt, mergeCredentials } from "./credentials.ts";
import { parseDeploymentType } from "./deployment-type.ts";
import { type FlowsDocument, formatDocument } from "./document.ts";
import { parseFlows } from "./parse-flows.ts";

/** The fields of a request that are not about the content of the flows. Not validated. */
export type DeploymentFields = Pick<SetFlowsRequest, "message" | "idempotencyKey" | "wait" | "onFailure">;

/** A validated deployment request that is not committed yet. */
export type PreparedDeployment = {
  readonly type: DeploymentType;
  /** The `rev` of the request; undefined for a forced deployment. */
  readonly rev: string | undefined;
  readonly fields: DeploymentFields;
  /** What to commit, or the error of the request. Undefined for a reload, which commits nothing. */
  readonly outcome: PreparedFlows | Error | undefined;
};

type PreparedFlows = {
  readonly flows: FlowsDocument;
  /** The same object as the current credentials if the deployment changes none. */
  readonly credentials: CredentialSets;
  /** For merging again if the current credentials change before the commit. */
  readonly submitted: SubmittedCredentials;
};

/**
 * Validates a request and merges its credentials into the `current` ones. Throws `invalid_deployment_type`; any other
 * FlowgateError is returned as the outcome.
 */
export async function prepareDeployment(
  request: SetFlowsRequest,
  current: CredentialSets,
  decrypt: Decrypt,
): Promise<PreparedDeployment> {
  const type = parseDeploymentType(request.deploymentType);
  const { rev, message, idempotencyKey, wait, onFailure } = request;
  const fields: DeploymentFields = {
    message,
    onFailure,
    ...(idempotencyKey !== undefined && { idempotencyKey }),
    ...(wait !== undefined && { wait }),
  };
  if (type === "reload") {
    return { type, rev, fields, outcome: undefined };
  }
  try {
    return { type, rev, fields, outcome: await prepareFlows(request, current, decrypt) };
  } catch (error) {
    if (error instanceof FlowgateError) {
      return { type, rev, fields, outcome: error };
    }
    throw error;
  }
}

async function prepareFlows(
  request: SetFlowsRequest,
  current: CredentialSets,
  decrypt: Decrypt,
): Promise<PreparedFlows> {
  const { flows, inline } = parseFlows(request.flows);
  const submitted = { inline, topLevel: request.credentials };
  const credentials = mergeCredentials({ ...submitted, flows, current, decrypt });
  return { flows: await formatDocument(flows), credentials, submitted };
}
