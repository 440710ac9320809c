import { Code, ConnectError } from "@connectrpc/connect";
import { type TranscodingResponse, codeOfStatus } from "@flowgate/transcoding/server";
import { refuseCall } from "./refuse.ts";
import { errorResponse } from "../error-response.ts";
import type { RequestContext } from "./request-context.ts";

/**
 * The response if no protocol of an RPC takes the request. Connect's clients derive UNKNOWN from these statuses, so that is
 * what the body says too; gRPC has no code but UNIMPLEMENTED for them.
 */
export function refuseRpc(
  request: RequestContext,
  status: number,
  allowedMethods: readonly string[],
): TranscodingResponse {
  const code = /^application\/grpc/i.test(request.headers["content-type"] ?? "") ? Code.Unimplemented : Code.Unknown;
  // Metrics and spans say what was wrong with the request; `unknown` would count as a failure of the server.
  request.fail(codeOfStatus(status));
  const refused = (message: string): TranscodingResponse =>
    refuseCall(request, status, new ConnectError(message, code));
  switch (status) {
    case 405: {
      const answer = refused(`this RPC is called with ${allowedMethods.join(" or ")}`);
      answer.headers["Allow"] = allowedMethods.join(", ");
      return answer;
    }
    case 415:
      return refused("the Content-Type is none of Connect, gRPC or gRPC-Web for this kind of RPC");
    case 505:
      // The client of a bidirectional stream would wait for ever on a connection that is kept.
      return errorResponse(status, "this RPC needs HTTP/2", { headers: { connection: "close" }, code: "unknown" });
    default:
      return refused("the RPC can't be served as it was called");
  }
}

/** The response if there is no RPC of this path. */
export function refuseUnknownRpc(request: RequestContext): TranscodingResponse {
  return refuseCall(request, 404, new ConnectError("this server has no such RPC", Code.Unimplemented));
}
