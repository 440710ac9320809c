import { type EncodedRequest, RequestError } from "@flowgate/gateway";
import { FlowgateError, type Reason } from "@flowgate/flows/errors";
import type {
  CredentialSets,
  CurrentCredentials,
  DeploymentType,
  SubmittedCredentials,
  NodeTypes,
  FlowNeeds,
} from "@flowgate/flows";
import type { FlowEdit } from "./edit-flow.ts";
import type {
  DecodedFlowRequest,
  DeploymentFields,
  FlowRequest,
  FlowsRequest,
  RequestedModule,
} from "./prepare-deployment.ts";

export type PreparationData = { readonly memoryMb: number };

export type PreparationCall =
  | (Current & {
      readonly kind: "prepare";
      readonly source: EncodedRequest;
      readonly typeName: FlowsRequest["$typeName"];
    })
  | { readonly kind: "decode"; readonly source: EncodedRequest; readonly typeName: FlowRequest["$typeName"] }
  | (Current & { readonly kind: "edit"; readonly edit: FlowEdit; readonly document: Uint8Array })
  | { readonly kind: "find-created"; readonly document: Uint8Array };

type Current = {
  readonly current: CurrentCredentials;
  /** The secrets that encrypted credentials may have been encrypted with. */
  readonly secrets: readonly string[];
};

/** A `PreparedDeployment` in a form that can be cloned. */
export type PreparationReply =
  | {
      readonly kind: "prepared";
      readonly type: DeploymentType;
      readonly rev: string | undefined;
      readonly fields: DeploymentFields;
      readonly base: string;
      readonly modules: readonly RequestedModule[];
      readonly outcome:
        | SerializedFlows
        | { readonly kind: "rejected"; readonly error: SerializedError }
        | { readonly kind: "reload" };
    }
  | { readonly kind: "decoded"; readonly request: DecodedFlowRequest }
  | { readonly kind: "edited"; readonly outcome: SerializedFlows }
  | { readonly kind: "found"; readonly id: string }
  /** The request can't be decoded, its deployment type is unknown, or its flow breaks a rule. */
  | { readonly kind: "failed"; readonly error: SerializedError };

export type SerializedFlows = {
  readonly kind: "flows";
  readonly json: Uint8Array<ArrayBuffer>;
  readonly count: number;
  /** The types of all nodes with credentials, kept ones included. */
  readonly types: NodeTypes;
  readonly needs: FlowNeeds;
  /** Undefined if they are the current ones. */
  readonly credentials: CredentialSets | undefined;
  readonly submitted: SubmittedCredentials;
};

/** An error that a caller can act on, in a form that can be sent between threads, since cloning drops classes. */
export type SerializedError =
  | { readonly kind: "flowgate"; readonly reason: Reason; readonly message: string }
  | ({ readonly kind: "request" } & Pick<RequestError, "status" | "reason" | "message" | "headers" | "repeatsInput">);

/** Rethrows errors of other classes. */
export function serializeError(error: unknown): SerializedError {
  if (error instanceof FlowgateError) {
    return { kind: "flowgate", reason: error.reason, message: error.message };
  }
  if (error instanceof RequestError) {
    const { status, reason, message, headers, repeatsInput } = error;
    return { kind: "request", status, reason, message, headers, repeatsInput };
  }
  throw error;
}

export function deserializeError(error: SerializedError): Error {
  return error.kind === "flowgate"
    ? new FlowgateError(error.reason, error.message)
    : new RequestError(error.status, error.reason, error.message, error);
}
