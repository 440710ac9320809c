import type { OutgoingHttpHeaders, ServerResponse } from "node:http";
import type { GatewayMatch } from "../../gateway.ts";
import { addVary, type GatewayResponse } from "../../http/response.ts";
import { setContentLength } from "../content-length.ts";
import type { NodeRequest, ResponseOfNode } from "./request.ts";
import { sendStream } from "./send-stream.ts";

/**
 * Sends a response. `earlierHeaders` were set by a middleware or hook; the response's headers take precedence, and Vary
 * has the values of both. Returns a promise for a stream, which resolves at its end; it never rejects. `kind`: after a
 * REST response to a long unread body the connection is closed. It is kept for RPCs, whose clients report a connection
 * closed during their write as a failure.
 */
export function sendResponse(
  result: GatewayResponse,
  request: NodeRequest,
  response: ResponseOfNode,
  earlierHeaders: OutgoingHttpHeaders,
  kind: GatewayMatch["kind"],
): Promise<void> | undefined {
  const { status, headers, body, trailers } = result;
  // Http2ServerResponse has the same methods.
  const target = response as ServerResponse;
  const isStream = body !== undefined && typeof body !== "string" && !(body instanceof Uint8Array);
  if (target.headersSent) {
    // The application has responded, for example after a timeout of its own.
    return isStream ? discard(body) : undefined;
  }
  const encoding = setContentLength(result, request.method ?? "");
  if (kind === "rest" && !request.complete && request.httpVersionMajor === 1 && mustClose(request)) {
    headers["connection"] = "close";
  }
  for (const name in earlierHeaders) {
    if (name === "vary") {
      addVary(headers, String(earlierHeaders[name]));
    } else {
      headers[name] ??= earlierHeaders[name] as string | string[];
    }
  }
  if (body === undefined && trailers === undefined && "stream" in request) {
    // One frame with the end of the stream: a response of gRPC without a message has its status in it ("Trailers-Only").
    target.statusCode = status;
    for (const name in headers) {
      target.setHeader(name, headers[name] as string | string[]);
    }
    target.end();
    drainBody(request);
    return undefined;
  }
  target.writeHead(status, headers);
  if (isStream) {
    return sendStream(body, response, () => addTrailers(target, trailers)).then(() => drainBody(request));
  }
  if (trailers !== undefined) {
    if (body !== undefined) {
      target.write(body);
    }
    addTrailers(target, trailers);
    target.end();
    drainBody(request);
    return undefined;
  }
  if (body instanceof Uint8Array && body.length < SMALL_BYTES && !("stream" in request)) {
    // Node writes a text together with the head, and bytes after it. Latin-1 maps each byte to one character.
    target.end(Buffer.from(body.buffer, body.byteOffset, body.length).toString("latin1"), "latin1");
  } else {
    target.end(body, encoding);
  }
  drainBody(request);
  return undefined;
}

/** Converting a larger body to text costs more than a second write. */
const SMALL_BYTES = 8 * 1024;

function addTrailers(response: ServerResponse, trailers: GatewayResponse["trailers"]): void {
  if (trailers !== undefined) {
    response.addTrailers(trailers);
  }
}

async function discard(body: AsyncIterable<unknown>): Promise<void> {
  await body[Symbol.asyncIterator]().return?.();
}

/**
 * Drains the body that was read in part. Otherwise the client of HTTP/2 is left blocked by flow control, and the next request of
 * HTTP/1.1 is not read. RFC 9113, section 8.1, also allows a reset with NO_ERROR, but Node's client then treats the response as
 * incomplete. Node itself drains a body of which nothing was read.
 */
function drainBody(request: NodeRequest): void {
  if (request.readableDidRead && !request.readableEnded && !request.destroyed) {
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
