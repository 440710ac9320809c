import { Code, ConnectError } from "@connectrpc/connect";
import { type GatewayResponse, codeOfStatus } from "@flowgate/gateway/server";
import { rejectCall } from "./reject.ts";
import { errorResponse } from "../errors/error-response.ts";
import type { RequestContext } from "./request-context.ts";

/**
 * The response to a request for an RPC that none of its protocols accepts. Connect clients derive UNKNOWN from these
 * statuses, so the body has that code too; for gRPC the code is UNIMPLEMENTED.
 */
export function rejectRpc(request: RequestContext, status: number, allowedMethods: readonly string[]): GatewayResponse {
  const code = /^application\/grpc/i.test(request.headers["content-type"] ?? "") ? Code.Unimplemented : Code.Unknown;
  // Metrics and spans record the code of the HTTP status; `unknown` would count as a server error.
  request.fail(codeOfStatus(status));
  const reject = (message: string): GatewayResponse => rejectCall(request, status, new ConnectError(message, code));
  switch (status) {
    case 405: {
      const response = reject(`this RPC must be called with ${allowedMethods.join(" or ")}`);
      response.headers["Allow"] = allowedMethods.join(", ");
      return response;
    }
    case 415:
      return reject("the Content-Type must be one of Connect, gRPC or gRPC-Web for this kind of RPC");
    case 505:
      // The connection is closed, since the client of a bidirectional stream would otherwise wait indefinitely.
      return errorResponse(status, "this RPC requires HTTP/2", { headers: { connection: "close" }, code: "unknown" });
    default:
      return reject("the request is not supported by this RPC");
  }
}

/** The response to an RPC request with an unknown path. */
export function rejectUnknownRpc(request: RequestContext): GatewayResponse {
  return rejectCall(request, 404, new ConnectError("this server has no such RPC", Code.Unimplemented));
}
