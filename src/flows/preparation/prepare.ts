import { OnFailure, type PlanFlowsRequest, type SetFlowsRequest } from "../../../gen/flowgate/v1/flows_pb.ts";
import { FlowgateError } from "../../errors.ts";
import { type CredentialSets, type DeploymentType, parseDeploymentType } from "../configuration.ts";
import { type Decrypt, type SubmittedCredentials, mergeCredentials } from "../credentials.ts";
import { type FlowsDocument, formatDocument } from "../document.ts";
import { parseFlows } from "../parse-flows.ts";

/** The fields of a request that are not about the content of the flows. Not validated. */
export type DeploymentFields = Pick<SetFlowsRequest, "message" | "idempotencyKey" | "wait" | "onFailure"> &
  Partial<Pick<SetFlowsRequest, "merge">>;

/** A request that deploys flows, or plans that. */
export type FlowsRequest = SetFlowsRequest | PlanFlowsRequest;

/** A validated deployment request that is not committed yet. */
export type PreparedDeployment = {
  readonly type: DeploymentType;
  /** The `rev` of the request; undefined for a forced deployment. */
  readonly rev: string | undefined;
  readonly fields: DeploymentFields;
  /** The `base` of a PlanFlowsRequest; empty if there is none. */
  readonly base: string;
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
  request: FlowsRequest,
  current: CredentialSets,
  decrypt: Decrypt,
): Promise<PreparedDeployment> {
  const type = parseDeploymentType(request.deploymentType);
  const { rev } = request;
  const fields = readFields(request);
  const base = isPlan(request) ? request.base : "";
  if (type === "reload") {
    return { type, rev, fields, base, outcome: undefined };
  }
  try {
    return { type, rev, fields, base, outcome: await prepareFlows(request, current, decrypt) };
  } catch (error) {
    if (error instanceof FlowgateError) {
      return { type, rev, fields, base, outcome: error };
    }
    throw error;
  }
}

function isPlan(request: FlowsRequest): request is PlanFlowsRequest {
  return request.$typeName === "flowgate.v1.PlanFlowsRequest";
}

function readFields(request: FlowsRequest): DeploymentFields {
  if (isPlan(request)) {
    return { message: "", onFailure: OnFailure.UNSPECIFIED };
  }
  const { message, idempotencyKey, wait, onFailure, merge } = request;
  return {
    message,
    onFailure,
    merge,
    ...(idempotencyKey !== undefined && { idempotencyKey }),
    ...(wait !== undefined && { wait }),
  };
}

async function prepareFlows(request: FlowsRequest, current: CredentialSets, decrypt: Decrypt): Promise<PreparedFlows> {
  const { flows, inline } = parseFlows(request.flows);
  const submitted = { inline, topLevel: request.credentials };
  const credentials = mergeCredentials({ ...submitted, flows, current, decrypt });
  return { flows: await formatDocument(flows), credentials, submitted };
}
