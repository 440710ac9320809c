import { Code, ConnectError } from "@connectrpc/connect";
import { ErrorInfoSchema } from "@flowgate/gateway/gen/google/rpc/error_details_pb.js";
import type { ErrorDetail, FlowgateError, Reason } from "../../errors.ts";

/** The code of each reason. The transcoder maps codes to HTTP statuses. */
const codes: Readonly<Record<Reason, Code>> = {
  invalid_json: Code.InvalidArgument,
  invalid_flows: Code.InvalidArgument,
  invalid_credentials: Code.InvalidArgument,
  invalid_deployment_type: Code.InvalidArgument,
  version_mismatch: Code.Aborted,
  merge_conflict: Code.Aborted,
  precondition_failed: Code.FailedPrecondition,
  idempotency_key_reused: Code.FailedPrecondition,
  nothing_to_undo: Code.FailedPrecondition,
  no_runtime: Code.FailedPrecondition,
  payload_too_large: Code.ResourceExhausted,

  no_token: Code.Unauthenticated,
  invalid_token: Code.Unauthenticated,
  invalid_identity: Code.Unauthenticated,
  insufficient_scope: Code.PermissionDenied,

  invalid_request: Code.InvalidArgument,
  invalid_client: Code.Unauthenticated,
  invalid_grant: Code.Unauthenticated,
  unsupported_grant_type: Code.InvalidArgument,
  invalid_scope: Code.InvalidArgument,
  temporarily_unavailable: Code.ResourceExhausted,
  auth_disabled: Code.FailedPrecondition,
  user_required: Code.FailedPrecondition,

  invalid_argument: Code.InvalidArgument,
  not_found: Code.NotFound,
  limit_exceeded: Code.ResourceExhausted,
  unavailable: Code.Unavailable,
  overloaded: Code.Unavailable,
  misdirected_request: Code.PermissionDenied,
  foreign_origin: Code.PermissionDenied,
  internal: Code.Internal,
};

/** Converts an error: its reason becomes a google.rpc.ErrorInfo, the first of the details, and its headers metadata. */
export function toConnectError(error: FlowgateError): ConnectError {
  const { reason, message, headers, details } = error;
  const info: ErrorDetail<typeof ErrorInfoSchema> = { desc: ErrorInfoSchema, value: { reason, domain: "flowgate" } };
  return new ConnectError(message, codes[reason], headers, [info, ...details], error);
}
