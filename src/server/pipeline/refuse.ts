import { encodeEnvelope } from "@connectrpc/connect/protocol";
import { endStreamFlag, endStreamToJson, errorToJson } from "@connectrpc/connect/protocol-connect";
import type { ConnectError } from "@connectrpc/connect";
import { ErrorInfoSchema } from "../../../gen/google/rpc/error_details_pb.ts";
import type { Answer } from "../../transcoding/core.ts";
import { refusalAnswer } from "../refusal.ts";
import { grpcStatus } from "../rpc/grpc-status.ts";
import type { RequestContext } from "./request-context.ts";

/**
 * The response to a request that is refused before its route serves it, in the shape of its protocol: gRPC and gRPC-Web
 * with a status in the head, a Connect stream with its last message, everything else with this HTTP status and JSON. The
 * body stays unread. The error's metadata become headers.
 */
export function refuse(request: RequestContext, status: number, error: ConnectError): Answer {
  request.fail(error.code);
  const { route } = request;
  const { "content-type": type = "" } = request.headers;
  const grpcType = /^application\/grpc(?:-web(?:-text)?)?(?:\+[a-z]+)?/i.exec(type)?.[0];
  if (grpcType !== undefined) {
    const headers: Answer["headers"] = { "content-type": grpcType, ...grpcStatus(error) };
    const retryAfter = error.metadata.get("retry-after");
    if (retryAfter !== null) {
      // What clients with a retry policy wait for (gRPC's proposal A6, pushback).
      headers["grpc-retry-pushback-ms"] = String(Number(retryAfter) * 1000);
    }
    return { status: 200, headers, body: undefined };
  }
  const connectType = /^application\/connect\+(?:proto|json)(?=\s*(?:;|$))/i.exec(type)?.[0];
  if (connectType !== undefined) {
    const end = toBytes(endStreamToJson(error.metadata, error, {}));
    return {
      status: 200,
      headers: { "content-type": connectType },
      body: Buffer.from(encodeEnvelope(endStreamFlag, end)),
    };
  }
  const headers = Object.fromEntries(error.metadata);
  return route.kind === "rpc"
    ? {
        status,
        headers: { ...headers, "content-type": "application/json" },
        body: JSON.stringify(errorToJson(error, {})),
      }
    : refusalAnswer(status, error.rawMessage, { headers, code: error.findDetails(ErrorInfoSchema)[0]?.reason });
}

function toBytes(value: unknown): Uint8Array {
  return Buffer.from(JSON.stringify(value));
}
