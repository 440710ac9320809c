import type { GatewayResponse } from "@flowgate/gateway/server";
import { errorResponse } from "../errors/error-response.ts";

/**
 * The 400 response to several Host fields (RFC 9112, section 3.2) or Authorization fields (RFC 6750, section 3.1), of which Node keeps
 * the first one: recipients along the path could disagree about which one counts. undefined: neither is repeated.
 *
 * `rawHeaders` has names and values in turn.
 */
export function repeatedFieldError(rawHeaders: readonly string[]): GatewayResponse | undefined {
  let hosts = 0;
  let authorizations = 0;
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const name = rawHeaders[at] as string;
    // The length is compared first, since this runs for each request.
    if (name.length === hostLength) {
      hosts += name.toLowerCase() === "host" ? 1 : 0;
    } else if (name.length === authorizationLength) {
      authorizations += name.toLowerCase() === "authorization" ? 1 : 0;
    }
  }
  if (hosts > 1) {
    return errorResponse(400, "there must be one Host field", { headers: { connection: "close" } });
  }
  return authorizations > 1
    ? errorResponse(400, "there must be at most one Authorization field", {
        headers: { "www-authenticate": 'Bearer error="invalid_request"' },
      })
    : undefined;
}

const hostLength = "host".length;
const authorizationLength = "authorization".length;
