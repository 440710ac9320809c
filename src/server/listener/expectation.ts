import type { IncomingHttpHeaders } from "node:http";
import type { TranscodingResponse } from "@flowgate/transcoding/server";
import { errorResponse } from "../error-response.ts";

/** RFC 9110, section 10.1.1: an expectation other than 100-continue can't be met. */
export function expectationError({ expect }: IncomingHttpHeaders): TranscodingResponse | undefined {
  return expect === undefined || expect.toLowerCase() === "100-continue"
    ? undefined
    : errorResponse(417, "this server meets no expectation but 100-continue");
}
