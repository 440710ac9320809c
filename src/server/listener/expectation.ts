import type { IncomingHttpHeaders } from "node:http";
import type { Answer } from "@flowgate/transcoding/server";
import { refusalAnswer } from "../refusal.ts";

/** RFC 9110, section 10.1.1: an expectation other than 100-continue can't be met. */
export function refusalOfExpectation({ expect }: IncomingHttpHeaders): Answer | undefined {
  return expect === undefined || expect.toLowerCase() === "100-continue"
    ? undefined
    : refusalAnswer(417, "this server meets no expectation but 100-continue");
}
