import type { IncomingHttpHeaders } from "node:http";
import type { GatewayResponse } from "@flowgate/gateway/server";
import { errorResponse } from "../errors/error-response.ts";

/** The 417 response to an expectation other than 100-continue (RFC 9110, section 10.1.1); undefined if there is none. */
export function expectationError({ expect }: IncomingHttpHeaders): GatewayResponse | undefined {
  return expect === undefined || expect.toLowerCase() === "100-continue"
    ? undefined
    : errorResponse(417, "the only supported expectation is 100-continue");
}
