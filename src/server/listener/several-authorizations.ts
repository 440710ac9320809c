import type { IncomingHttpHeaders } from "node:http";
import type { TranscodingResponse } from "@flowgate/transcoding/server";
import { errorResponse } from "../errors/error-response.ts";

/**
 * The 400 response to a request with several Authorization fields, of which Node keeps the first: a proxy in front may have checked
 * another one (RFC 9110, section 5.3). undefined: there is one at most.
 */
export function severalAuthorizations(
  { authorization }: IncomingHttpHeaders,
  rawHeaders: readonly string[],
): TranscodingResponse | undefined {
  if (authorization === undefined) {
    return undefined;
  }
  let count = 0;
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const name = rawHeaders[at];
    count += name?.length === 13 && name.toLowerCase() === "authorization" ? 1 : 0;
  }
  return count > 1 ? errorResponse(400, "there must be one Authorization field") : undefined;
}
