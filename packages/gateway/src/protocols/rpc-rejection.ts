import { Code, ConnectError } from "@connectrpc/connect";
import { codeOfStatus } from "../errors/codes.ts";
import type { GatewayRequest } from "../http/request.ts";
import type { GatewayResponse } from "../http/response.ts";
import { endOfStream, unaryError } from "./connect.ts";
import { grpcStatus } from "./grpc.ts";

export type RejectedRequest = Pick<GatewayRequest, "headers" | "fail">;

/**
 * The response to a request for an RPC that is rejected before it is served, in the format of its protocol: gRPC and gRPC-Web
 * with trailers-only headers, a Connect stream with its end-of-stream message, all others with the given HTTP status and the JSON of
 * Connect. The request body stays unread.
 */
export function rejectCall(request: RejectedRequest, status: number, error: ConnectError): GatewayResponse {
  request.fail?.(error.code);
  const { "content-type": type = "" } = request.headers;
  const grpcType = grpcTypeOf(type);
  if (grpcType !== undefined) {
    return { status: 200, headers: { "content-type": grpcType, ...grpcStatus(error) }, body: undefined };
  }
  const connectType = connectStreamTypeOf(type);
  if (connectType !== undefined) {
    return { status: 200, headers: { "content-type": connectType }, body: endOfStream(error.metadata, error) };
  }
  return unaryError(status, error);
}

/**
 * The response to a request for an RPC that none of its protocols accepts. `allowed` are the HTTP methods (405), the media types (415) or
 * the encodings of a GET (415). Connect clients derive UNKNOWN from these statuses, so the body has that code too; for gRPC the code is
 * UNIMPLEMENTED.
 */
export function rejectRpc(
  request: RejectedRequest & Pick<GatewayRequest, "httpMethod">,
  status: 405 | 415 | 505,
  allowed: readonly string[] = [],
): GatewayResponse {
  const code = /^application\/grpc/i.test(request.headers["content-type"] ?? "") ? Code.Unimplemented : Code.Unknown;
  // Logs and metrics get the code for the HTTP status; `unknown` would count as a server error.
  request.fail?.(codeOfStatus(status));
  const reject = (message: string): GatewayResponse => rejectCall(request, status, new ConnectError(message, code));
  switch (status) {
    case 405: {
      const response = reject(`this RPC must be called with ${allowed.join(" or ")}`);
      response.headers["allow"] = allowed.join(", ");
      return response;
    }
    case 415:
      return reject(
        request.httpMethod === "GET"
          ? `the parameter encoding must be ${allowed.join(" or ")}`
          : `the Content-Type of this RPC must be ${allowed.join(" or ")}`,
      );
    case 505:
      // The connection is closed, since the client of a bidirectional stream would otherwise wait indefinitely.
      return unaryError(status, new ConnectError("this RPC requires HTTP/2", Code.Unknown), { connection: "close" });
  }
}

/** The response to a request of an RPC client with an unknown path. */
export function rejectUnknownRpc(request: RejectedRequest): GatewayResponse {
  return rejectCall(request, 404, new ConnectError("this server has no such RPC", Code.Unimplemented));
}

/** True if the path has the form of an RPC's, and an RPC client has sent the headers. */
export function isRpcRequest(path: string, headers: GatewayRequest["headers"]): boolean {
  const { "content-type": type = "", "connect-protocol-version": version } = headers;
  return (
    /^\/[\w.]+\/\w+$/.test(path) && (version !== undefined || /^application\/(?:grpc|connect\+|proto\b)/i.test(type))
  );
}

/** True if the Content-Type alone identifies a protocol with its own error format: gRPC, gRPC-Web, Connect streams. */
export function isEnvelopedType(type: string): boolean {
  return grpcTypeOf(type) !== undefined || connectStreamTypeOf(type) !== undefined;
}

function grpcTypeOf(type: string): string | undefined {
  return /^application\/grpc(?:-web(?:-text)?)?(?:\+[a-z]+)?/i.exec(type)?.[0];
}

function connectStreamTypeOf(type: string): string | undefined {
  return /^application\/connect\+(?:proto|json)(?=\s*(?:;|$))/i.exec(type)?.[0];
}
