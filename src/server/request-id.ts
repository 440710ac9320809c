import { randomBytes } from "node:crypto";
import type { IncomingHttpHeaders } from "node:http";

/**
 * The id of a request, which its response has too: the client's X-Request-Id if it is printable ASCII and short, else a
 * fresh one. Fresh ones are a counter behind a random prefix of the process.
 */
export function createRequestIds(): (headers: IncomingHttpHeaders) => string {
  const prefix = randomBytes(6).toString("base64url");
  let count = 0;
  return ({ "x-request-id": given }) => {
    if (typeof given === "string" && /^[\x21-\x7e]{1,128}$/.test(given)) {
      return given;
    }
    count += 1;
    return `${prefix}-${count.toString(36)}`;
  };
}
