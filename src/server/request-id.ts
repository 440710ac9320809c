import { randomBytes } from "node:crypto";
import type { IncomingHttpHeaders } from "node:http";

/**
 * Creates a function that returns the id of a request: the client's X-Request-Id if it is 1 to 128 characters of printable ASCII, otherwise a
 * new one, made of a random prefix per process and a counter.
 */
export function createRequestIds(): (headers: IncomingHttpHeaders) => string {
  const prefix = randomBytes(6).toString("base64url");
  let count = 0;
  return ({ "x-request-id": requestId }) => {
    if (typeof requestId === "string" && /^[\x21-\x7e]{1,128}$/.test(requestId)) {
      return requestId;
    }
    count += 1;
    return `${prefix}-${count.toString(36)}`;
  };
}
