import type { TranscodingResponse } from "@flowgate/transcoding/server";
import { errorResponse } from "../error-response.ts";
import type { RequestContext, Route } from "./request-context.ts";

/** The response to GET; that to HEAD goes without its body. */
export type EndpointHandler = (request: RequestContext) => TranscodingResponse | Promise<TranscodingResponse>;

/** A route that is only read. `isExempt`: it is served under load, too. */
export function createEndpoint(path: string, isExempt: boolean, read: EndpointHandler): [string, Route] {
  return [
    path,
    {
      kind: "endpoint",
      method: undefined,
      isExempt,
      serve: (request) =>
        request.httpMethod === "GET" || request.httpMethod === "HEAD"
          ? read(request)
          : errorResponse(405, `${path} is read with GET`, { headers: { Allow: "GET, HEAD" } }),
    },
  ];
}
