import type { CredentialSets, CurrentCredentials, DeploymentType } from "../flows/configuration.ts";
import type { SubmittedCredentials } from "../flows/credentials.ts";
import type { NodeTypes } from "../flows/document.ts";
import type { DeploymentFields, FlowsRequest } from "../flows/prepare.ts";
import type { EncodedRequest } from "@flowgate/gateway";
import type { SerializedError } from "./serialized-error.ts";

/** The `workerData` of the thread. */
export type PreparationData = { readonly credentialSecret: string | undefined; readonly memoryMb: number };

export type PreparationCall = {
  readonly source: EncodedRequest;
  readonly typeName: FlowsRequest["$typeName"];
  readonly current: CurrentCredentials;
};

/** A `PreparedDeployment` in a form that can be cloned. */
export type PreparationReply =
  | {
      readonly kind: "prepared";
      readonly type: DeploymentType;
      readonly rev: string | undefined;
      readonly fields: DeploymentFields;
      readonly base: string;
      readonly outcome: SerializedFlows | { readonly kind: "rejected"; readonly error: SerializedError } | undefined;
    }
  /** The request can't be decoded, or its deployment type is unknown. */
  | { readonly kind: "failed"; readonly error: SerializedError };

type SerializedFlows = {
  readonly kind: "flows";
  readonly json: Uint8Array<ArrayBuffer>;
  readonly count: number;
  /** Those of all nodes with credentials, and of `kept` ones. */
  readonly types: NodeTypes;
  /** Undefined if they are the current ones. */
  readonly credentials: CredentialSets | undefined;
  readonly submitted: SubmittedCredentials;
};
