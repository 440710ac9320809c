import type { IncomingMessage, ServerResponse } from "node:http";
import type { RequestHandler } from "./request-handler.ts";
import { sendRefusal } from "../refusal.ts";

/**
 * Serves a request that expects 100 Continue, and answers that only when someone begins to read the
 * body: a call refused before never asks for it.
 */
export function serveWhenContinued(handler: RequestHandler): RequestHandler {
  return (request, response) => {
    const read = request._read.bind(request);
    request._read = (size) => {
      request._read = read;
      // Node itself reads what is left of a body once the response is finished.
      if (!response.headersSent) {
        response.writeContinue();
      }
      read(size);
    };
    handler(request, response);
  };
}

/** RFC 9110, section 10.1.1: an expectation other than 100-continue. */
export function refuseExpectation(_request: IncomingMessage, response: ServerResponse): void {
  sendRefusal(response, 417, "this server meets no expectation but 100-continue");
}
