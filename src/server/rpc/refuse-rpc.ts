import { Code, ConnectError } from "@connectrpc/connect";
import { ErrorInfoSchema } from "../../../gen/google/rpc/error_details_pb.ts";
import type { Answer } from "../../transcoding/core.ts";
import { refuse } from "../pipeline/refuse.ts";
import type { RequestContext } from "../pipeline/request-context.ts";
import { refusalAnswer } from "../refusal.ts";

/** The response where no protocol of an RPC takes the request. */
export function refuseRpc(_request: RequestContext, status: number, allowedMethods: readonly string[]): Answer {
  switch (status) {
    case 405: {
      const headers = { Allow: allowedMethods.join(", ") };
      return refusalAnswer(status, `this RPC is called with ${allowedMethods.join(" or ")}`, { headers });
    }
    case 415:
      return refusalAnswer(status, "the Content-Type is none of Connect, gRPC or gRPC-Web for this kind of RPC");
    case 505:
      // The client of a bidirectional stream would wait for ever on a connection that is kept.
      return refusalAnswer(status, "this RPC needs HTTP/2", { headers: { connection: "close" } });
    default:
      return refusalAnswer(status, "the RPC can't be served as it was called");
  }
}

/** No service is registered at this path. */
export function refuseUnknownRpc(request: RequestContext): Answer {
  return refuse(
    request,
    404,
    new ConnectError("this server has no such RPC", Code.Unimplemented, undefined, [
      { desc: ErrorInfoSchema, value: { reason: "not_found", domain: "flowgate" } },
    ]),
  );
}
