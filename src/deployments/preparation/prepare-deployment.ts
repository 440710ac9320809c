import { type MessageShape, toBinary } from "@bufbuild/protobuf";
import {
  type DeploymentType as DeploymentTypeMessage,
  FlowSchema,
  FlowsService,
  OnFailure,
  type PlanFlowsRequest,
  type SetFlowsRequest,
} from "../../../gen/flowgate/v1/flows_pb.ts";
import { ProposalsService } from "../../../gen/flowgate/v1/proposals_pb.ts";
import { FlowgateError } from "@flowgate/flows/errors";
import {
  type CredentialSets,
  type DeploymentType,
  type Decrypt,
  type SubmittedCredentials,
  mergeCredentials,
  type FlowsDocument,
  findTypesOf,
  formatDocument,
  parseFlows,
} from "@flowgate/flows";
import { parseDeploymentType } from "../messages/deployment-type.ts";

/** The methods whose requests have flows. The gateway does not decode these, which can be large: a preparation does, on a thread. */
export const preparedMethods = [
  FlowsService.method.setFlows,
  FlowsService.method.planFlows,
  ProposalsService.method.createProposal,
] as const;

/** The same for one flow, which can be as large. */
export const flowMethods = [FlowsService.method.createFlow, FlowsService.method.updateFlow] as const;

export type DeploymentFields = Pick<
  SetFlowsRequest,
  "message" | "idempotencyKey" | "wait" | "onFailure" | "maxErrors"
> &
  Partial<Pick<SetFlowsRequest, "merge">>;

export type FlowsRequest = MessageShape<(typeof preparedMethods)[number]["input"]>;

export type FlowRequest = MessageShape<(typeof flowMethods)[number]["input"]>;

export type DecodedFlowRequest = {
  readonly fields: DeploymentFields;
  readonly deploymentType: DeploymentTypeMessage;
  /** Empty in a request that creates a flow. */
  readonly id: string;
  readonly rev: string | undefined;
  /** With its own `id` and `rev`, which may be empty, and all of it encoded. */
  readonly flow: { readonly id: string; readonly rev: string; readonly bytes: Uint8Array } | undefined;
};

export function readFlowRequest(request: FlowRequest): DecodedFlowRequest {
  const { deploymentType, flow } = request;
  return {
    fields: readFields(request),
    deploymentType,
    id: "id" in request ? request.id : "",
    rev: "rev" in request ? request.rev : undefined,
    flow: flow && { id: flow.id, rev: flow.rev, bytes: toBinary(FlowSchema, flow) },
  };
}

export type PreparedDeployment = {
  readonly type: DeploymentType;
  /** The `rev` of the request; undefined for a forced deployment. */
  readonly rev: string | undefined;
  readonly fields: DeploymentFields;
  /** The `base` of a PlanFlowsRequest; empty if there is none. */
  readonly base: string;
  /** The modules that the request names, which are validated when they are installed. */
  readonly modules: readonly RequestedModule[];
  readonly outcome: PreparedOutcome;
};

/** A module, with a version, range or tag. */
export type RequestedModule = {
  readonly name: string;
  readonly version: string;
  /** The hash that its tarball must have; undefined: any. */
  readonly integrity: string | undefined;
};

/** The revision to commit; the error of an invalid request; or a reload, which commits nothing. */
export type PreparedOutcome =
  | PreparedFlows
  | { readonly kind: "rejected"; readonly error: Error }
  | { readonly kind: "reload" };

export type PreparedFlows = {
  readonly kind: "flows";
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
  const outcome = type === "reload" ? ({ kind: type } as const) : await prepareFlows(request, current, decrypt);
  const modules = request.modules.map(({ name, version, integrity }) => ({ name, version, integrity }));
  return { type, rev, fields, base, modules, outcome };
}

function isPlan(request: FlowsRequest | FlowRequest): request is PlanFlowsRequest {
  return request.$typeName === "flowgate.v1.PlanFlowsRequest";
}

function readFields(request: FlowsRequest | FlowRequest): DeploymentFields {
  if (isPlan(request)) {
    return { message: "", onFailure: OnFailure.UNSPECIFIED };
  }
  const { message, wait, onFailure, maxErrors } = request;
  return {
    message,
    onFailure,
    ...("merge" in request && { merge: request.merge }),
    ...("idempotencyKey" in request &&
      request.idempotencyKey !== undefined && { idempotencyKey: request.idempotencyKey }),
    ...(wait !== undefined && { wait }),
    ...(maxErrors !== undefined && { maxErrors }),
  };
}

async function prepareFlows(
  request: FlowsRequest,
  current: CredentialSets,
  decrypt: Decrypt,
): Promise<PreparedOutcome> {
  try {
    const { flows, inline } = parseFlows(request.flows);
    const submitted = { inline, topLevel: request.credentials };
    const credentials = mergeCredentials({
      ...submitted,
      findTypes: (ids) => findTypesOf(flows, ids),
      current,
      decrypt,
    });
    return { kind: "flows", flows: formatDocument(flows), credentials, submitted };
  } catch (error) {
    if (error instanceof FlowgateError) {
      return { kind: "rejected", error };
    }
    throw error;
  }
}
