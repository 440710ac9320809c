import type { GatewayResponse } from "@flowgate/gateway/server";
import { errorResponse } from "../errors/error-response.ts";
import type { RequestContext, Route } from "./request-context.ts";

/** Returns the response to GET and HEAD; for HEAD its body is not sent. */
export type EndpointHandler = (request: RequestContext) => GatewayResponse | Promise<GatewayResponse>;

/** A route that supports GET and HEAD. `isExempt`: exempt from load shedding. */
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
          : errorResponse(405, `${path} supports only GET`, { headers: { Allow: "GET, HEAD" } }),
    },
  ];
}
