import { encodeEnvelope } from "@connectrpc/connect/protocol";
import type { Code, ConnectError } from "@connectrpc/connect";
import { endStreamFlag, endStreamToJson, errorToJson } from "@connectrpc/connect/protocol-connect";
import type { FlowgateError } from "../../errors.ts";
import { addHeaders, type GatewayResponse } from "@flowgate/gateway/server";
import { errorResponse } from "../errors/error-response.ts";
import { toConnectError } from "../errors/connect-error.ts";
import { grpcStatus } from "../errors/grpc-status.ts";
import type { RequestContext } from "./request-context.ts";

/**
 * The error response to a request that is rejected before its route serves it, in the format of its protocol: gRPC and
 * gRPC-Web with trailers-only headers, a Connect stream with its end-of-stream message, all others with the given HTTP
 * status and JSON. The request body stays unread.
 */
export function rejectRequest(request: RequestContext, status: number, error: FlowgateError): GatewayResponse {
  const { message, headers, reason } = error;
  return request.route.kind === "rpc" || isStreamingType(request)
    ? rejectCall(request, status, toConnectError(error))
    : failed(request, toConnectError(error).code, errorResponse(status, message, { headers, code: reason }));
}

/** The same for an RPC, with any ConnectError. */
export function rejectCall(request: RequestContext, status: number, error: ConnectError): GatewayResponse {
  const { "content-type": type = "" } = request.headers;
  const grpcType = grpcTypeOf(type);
  if (grpcType !== undefined) {
    const headers: GatewayResponse["headers"] = { "content-type": grpcType, ...grpcStatus(error) };
    return failed(request, error.code, { status: 200, headers, body: undefined });
  }
  const connectType = connectStreamTypeOf(type);
  if (connectType !== undefined) {
    const end = Buffer.from(JSON.stringify(endStreamToJson(error.metadata, error, {})));
    const body = Buffer.from(encodeEnvelope(endStreamFlag, end));
    return failed(request, error.code, { status: 200, headers: { "content-type": connectType }, body });
  }
  const headers: GatewayResponse["headers"] = { "content-type": "application/json" };
  addHeaders(headers, error.metadata);
  return failed(request, error.code, { status, headers, body: JSON.stringify(errorToJson(error, {})) });
}

function failed(request: RequestContext, code: Code, response: GatewayResponse): GatewayResponse {
  request.fail(code);
  return response;
}

/** Whether the Content-Type alone identifies a protocol with its own error format: gRPC, gRPC-Web, Connect streams. */
function isStreamingType({ headers: { "content-type": type = "" } }: RequestContext): boolean {
  return grpcTypeOf(type) !== undefined || connectStreamTypeOf(type) !== undefined;
}

function grpcTypeOf(type: string): string | undefined {
  return /^application\/grpc(?:-web(?:-text)?)?(?:\+[a-z]+)?/i.exec(type)?.[0];
}

function connectStreamTypeOf(type: string): string | undefined {
  return /^application\/connect\+(?:proto|json)(?=\s*(?:;|$))/i.exec(type)?.[0];
}
