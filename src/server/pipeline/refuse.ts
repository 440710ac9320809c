import { encodeEnvelope } from "@connectrpc/connect/protocol";
import type { Code, ConnectError } from "@connectrpc/connect";
import { endStreamFlag, endStreamToJson, errorToJson } from "@connectrpc/connect/protocol-connect";
import type { FlowgateError } from "../../errors.ts";
import { addHeaders, type TranscodingResponse } from "@flowgate/transcoding/server";
import { errorResponse } from "../error-response.ts";
import { toConnectError } from "../errors/connect-error.ts";
import { grpcStatus } from "../errors/grpc-status.ts";
import type { RequestContext } from "./request-context.ts";

/**
 * The response to a request that is refused before its route serves it, in the shape of its protocol: gRPC and gRPC-Web
 * with a status in the head, a Connect stream with its last message, everything else with this HTTP status and JSON. The
 * body stays unread.
 */
export function refuse(request: RequestContext, status: number, refusal: FlowgateError): TranscodingResponse {
  const { message, headers, reason } = refusal;
  return request.route.kind === "rpc" || isEnveloped(request)
    ? refuseCall(request, status, toConnectError(refusal))
    : failed(request, toConnectError(refusal).code, errorResponse(status, message, { headers, code: reason }));
}

/** The same for an RPC, by an error that may have no reason of ours. */
export function refuseCall(request: RequestContext, status: number, error: ConnectError): TranscodingResponse {
  const { "content-type": type = "" } = request.headers;
  const grpcType = grpcTypeOf(type);
  if (grpcType !== undefined) {
    const headers: TranscodingResponse["headers"] = { "content-type": grpcType, ...grpcStatus(error) };
    const retryAfter = error.metadata.get("retry-after");
    if (retryAfter !== null) {
      // What clients with a retry policy wait for (gRPC's proposal A6, pushback).
      headers["grpc-retry-pushback-ms"] = String(Number(retryAfter) * 1000);
    }
    return failed(request, error.code, { status: 200, headers, body: undefined });
  }
  const connectType = connectStreamTypeOf(type);
  if (connectType !== undefined) {
    const end = Buffer.from(JSON.stringify(endStreamToJson(error.metadata, error, {})));
    const body = Buffer.from(encodeEnvelope(endStreamFlag, end));
    return failed(request, error.code, { status: 200, headers: { "content-type": connectType }, body });
  }
  const headers: TranscodingResponse["headers"] = { "content-type": "application/json" };
  addHeaders(headers, error.metadata);
  return failed(request, error.code, { status, headers, body: JSON.stringify(errorToJson(error, {})) });
}

function failed(request: RequestContext, code: Code, answer: TranscodingResponse): TranscodingResponse {
  request.fail(code);
  return answer;
}

/** Whether the Content-Type alone shows a protocol that has its own way to report an error. */
function isEnveloped({ headers: { "content-type": type = "" } }: RequestContext): boolean {
  return grpcTypeOf(type) !== undefined || connectStreamTypeOf(type) !== undefined;
}

function grpcTypeOf(type: string): string | undefined {
  return /^application\/grpc(?:-web(?:-text)?)?(?:\+[a-z]+)?/i.exec(type)?.[0];
}

function connectStreamTypeOf(type: string): string | undefined {
  return /^application\/connect\+(?:proto|json)(?=\s*(?:;|$))/i.exec(type)?.[0];
}
