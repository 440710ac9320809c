import { Code, ConnectError, type HandlerContext } from "@connectrpc/connect";
import { ErrorInfoSchema } from "@flowgate/gateway/gen/google/rpc/error_details_pb.js";
import type { GatewayResponse } from "@flowgate/gateway";
import { isEnvelopedType, rejectCall } from "@flowgate/gateway/server";
import type { Logger } from "pino";
import { peerKey } from "../../auth/caller.ts";
import { FlowgateError, type Reason } from "@flowgate/flows/errors";
import { traceIds } from "@flowgate/base/spans";
import { traceKey } from "../../telemetry/trace.ts";
import { errorResponse } from "../http/error-response.ts";
import type { RequestContext } from "./request-context.ts";

type OutgoingDetail = NonNullable<ConstructorParameters<typeof ConnectError>[3]>[number];

/** Throws or rejects to reject a call before its body is read. */
export type Gate = (context: HandlerContext) => void | Promise<void>;

type Call = Pick<HandlerContext, "method" | "values" | "signal">;

/** Converts an error that ended a call. Errors that a caller can't act on are logged and reported as `internal`. */
export function toFailure(error: unknown, log: Logger, call: Call): ConnectError {
  if (error instanceof ConnectError) {
    return error;
  }
  if (error instanceof FlowgateError) {
    return toConnectError(error);
  }
  const { method, values, signal } = call;
  // The call was cancelled or its deadline passed, so that the implementation failed with an abort error.
  if (signal.aborted && (error === signal.reason || isAbort(error))) {
    return ConnectError.from(signal.reason);
  }
  const { requestId } = values.get(peerKey);
  log.error(
    { requestId, ...traceIds(values.get(traceKey)), procedure: `${method.parent.typeName}/${method.name}`, err: error },
    "a call failed unexpectedly",
  );
  return toConnectError(new FlowgateError("internal", internalMessage(requestId)));
}

/** Logs failures outside a call's implementation, such as writing the details of an error. */
export function createErrorLog(log: Logger): (error: unknown) => void {
  return (err) => log.error({ err }, "a response failed unexpectedly");
}

/** True if a signal was aborted, or the client of a request stream disconnected. */
function isAbort(error: unknown): boolean {
  return (
    error instanceof Error &&
    (error.name === "AbortError" || ("code" in error && error.code === "ERR_STREAM_PREMATURE_CLOSE"))
  );
}

export function internalMessage(requestId: string): string {
  return `internal error; the log has the details under request ${requestId}`;
}

/** The code of each reason. The gateway maps codes to HTTP statuses. */
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
  approval_required: Code.PermissionDenied,
  own_proposal: Code.PermissionDenied,
  foreign_proposal: Code.PermissionDenied,
  proposal_stale: Code.FailedPrecondition,
  proposal_closed: Code.FailedPrecondition,
  proposal_changed: Code.FailedPrecondition,
  nothing_proposed: Code.FailedPrecondition,
  no_runtime: Code.FailedPrecondition,
  flows_stopped: Code.FailedPrecondition,
  flows_not_running: Code.FailedPrecondition,
  // It is not known whether the flows have done it, so that clients must not repeat it by themselves.
  flows_unresponsive: Code.DeadlineExceeded,
  call_failed: Code.FailedPrecondition,
  node_disabled: Code.FailedPrecondition,
  no_input: Code.FailedPrecondition,
  payload_too_large: Code.ResourceExhausted,

  module_refused: Code.PermissionDenied,
  module_failed: Code.FailedPrecondition,
  module_in_use: Code.FailedPrecondition,
  modules_busy: Code.Aborted,
  registry_unavailable: Code.Unavailable,

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

export function headersOf({ retryAfterMs, challenge }: FlowgateError): Record<string, string> {
  return {
    ...(retryAfterMs !== undefined && { "retry-after": String(Math.ceil(retryAfterMs / 1000)) }),
    ...(challenge !== undefined && { "www-authenticate": challenge }),
  };
}

/** Converts an error: its reason becomes a google.rpc.ErrorInfo, the first of the details, and its headers metadata. */
export function toConnectError(error: FlowgateError): ConnectError {
  const { reason, message, details } = error;
  const info: OutgoingDetail = { desc: ErrorInfoSchema, value: { reason, domain: "flowgate" } };
  return new ConnectError(message, codes[reason], headersOf(error), [info, ...(details as OutgoingDetail[])], error);
}

/**
 * The error response to a request that is rejected before its route serves it, in the format of its protocol; outside of RPCs, JSON with
 * the given HTTP status. The request body stays unread.
 */
export function rejectRequest(request: RequestContext, status: number, error: FlowgateError): GatewayResponse {
  const failure = toConnectError(error);
  if (request.route.kind === "rpc" || isEnvelopedType(request.headers["content-type"] ?? "")) {
    return rejectCall(request, status, failure);
  }
  request.fail(failure.code);
  const { message, reason } = error;
  return errorResponse(status, message, { headers: headersOf(error), code: reason });
}
