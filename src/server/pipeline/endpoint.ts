import type { Answer } from "@flowgate/transcoding/server";
import { refusalAnswer } from "../refusal.ts";
import type { RequestContext, Route } from "./request-context.ts";

/** The response to GET; that to HEAD goes without its body. */
export type Read = (request: RequestContext) => Answer | Promise<Answer>;

/** A route that is only read. `isExempt`: it is served under load, too. */
export function createEndpoint(path: string, isExempt: boolean, read: Read): [string, Route] {
  return [
    path,
    {
      kind: "endpoint",
      method: undefined,
      isExempt,
      serve: (request) =>
        request.httpMethod === "GET" || request.httpMethod === "HEAD"
          ? read(request)
          : refusalAnswer(405, `${path} is read with GET`, { headers: { Allow: "GET, HEAD" } }),
    },
  ];
}
