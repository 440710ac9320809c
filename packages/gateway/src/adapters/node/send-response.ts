import type { OutgoingHttpHeaders, ServerResponse } from "node:http";
import type { GatewayResponse } from "../../http/response.ts";
import { addVary } from "../../http/vary.ts";
import { setContentLength } from "../content-length.ts";
import type { NodeRequest, ResponseOfNode } from "./request.ts";
import { sendStream } from "./send-stream.ts";

/**
 * Sends a response. `earlierHeaders` were set by a middleware or hook; those of the response take precedence, and
 * Vary has the values of both. Returns a promise for a stream, which resolves at its end; it never rejects.
 */
export function sendResponse(
  result: GatewayResponse,
  request: NodeRequest,
  response: ResponseOfNode,
  earlierHeaders: OutgoingHttpHeaders,
): Promise<void> | undefined {
  const { status, headers, body } = result;
  // Http2ServerResponse has the same methods.
  const target = response as ServerResponse;
  const isStream = body !== undefined && typeof body !== "string" && !(body instanceof Uint8Array);
  if (target.headersSent) {
    // The application has responded, for example after a timeout of its own.
    return isStream ? discard(body) : undefined;
  }
  const bytes = setContentLength(result, request.method ?? "");
  if (!request.complete && request.httpVersionMajor === 1 && mustClose(request)) {
    headers["connection"] = "close";
  }
  for (const name in earlierHeaders) {
    if (name === "vary") {
      addVary(headers, String(earlierHeaders[name]));
    } else {
      headers[name] ??= earlierHeaders[name] as string | string[];
    }
  }
  target.writeHead(status, headers);
  if (isStream) {
    return sendStream(body, response).then(() => drainBody(request));
  }
  // Equal counts of bytes and characters mean ASCII, which Node writes faster as latin1. For bytes or no body Node ignores the encoding.
  target.end(body, bytes === body?.length ? "latin1" : "utf8");
  drainBody(request);
  return undefined;
}

async function discard(body: AsyncIterable<unknown>): Promise<void> {
  await body[Symbol.asyncIterator]().return?.();
}

/**
 * Drains the unread HTTP/2 body so that the client is not left blocked by flow control. RFC 9113, section 8.1, also allows
 * a reset with NO_ERROR, but Node's client then treats the response as incomplete.
 */
function drainBody(request: NodeRequest): void {
  if ("stream" in request && request.readableDidRead && !request.readableEnded) {
    request.resume();
  }
}

/** Up to this size Node discards an unread body and keeps the connection; after a larger one the connection is closed. */
const MAX_DISCARDED_BYTES = 64 * 1024;

function mustClose(request: NodeRequest): boolean {
  const length = request.headers["content-length"];
  return length === undefined
    ? request.headers["transfer-encoding"] !== undefined
    : Number(length) > MAX_DISCARDED_BYTES;
}
