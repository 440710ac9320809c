import type { SetFlowsRequest } from "../../gen/flowgate/v1/flows_pb.ts";
import { FlowgateError } from "../errors.ts";
import type { CredentialSets, DeploymentType } from "./configuration.ts";
import { type SubmittedCredentials, type Decrypt, mergeCredentials } from "./credentials.ts";
import { parseDeploymentType } from "./deployment-type.ts";
import { type FlowsDocument, formatDocument } from "./document.ts";
import { parseFlows } from "./parse-flows.ts";

/** What a request to deploy comes to, before the store has it. */
export type PreparedDeployment = {
  readonly type: DeploymentType;
  /** The revision that the deployment replaces; undefined: whichever is active. */
  readonly rev: string | undefined;
  /** What to commit, or why not. A reload has nothing to commit. */
  readonly outcome: PreparedFlows | Error | undefined;
};

type PreparedFlows = {
  readonly flows: FlowsDocument;
  /** The same object as the current ones where the deployment changes none. */
  readonly credentials: CredentialSets;
  /** To merge again, if others become the current ones before the commit. */
  readonly given: SubmittedCredentials;
};

/**
 * Checks a request and merges its credentials into the `current` ones. Throws `invalid_deployment_type`; what else a caller
 * can act on is the outcome.
 */
export async function prepareDeployment(
  request: SetFlowsRequest,
  current: CredentialSets,
  decrypt: Decrypt,
): Promise<PreparedDeployment> {
  const type = parseDeploymentType(request.deploymentType);
  const { rev } = request;
  if (type === "reload") {
    return { type, rev, outcome: undefined };
  }
  try {
    return { type, rev, outcome: await prepareFlows(request, current, decrypt) };
  } catch (error) {
    if (error instanceof FlowgateError) {
      return { type, rev, outcome: error };
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
  const given = { inline, given: request.credentials };
  const credentials = mergeCredentials({ ...given, flows, current, decrypt });
  return { flows: await formatDocument(flows), credentials, given };
}
