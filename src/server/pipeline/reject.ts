import { type GatewayResponse, isEnvelopedType, rejectCall } from "@flowgate/gateway/server";
import type { FlowgateError } from "../../errors.ts";
import { toConnectError } from "../errors/connect-error.ts";
import { errorResponse } from "../errors/error-response.ts";
import type { RequestContext } from "./request-context.ts";

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
  const { message, headers, reason } = error;
  return errorResponse(status, message, { headers, code: reason });
}
