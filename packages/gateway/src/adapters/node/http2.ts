import type { ContextValues } from "@connectrpc/connect";
import type { IncomingHttpHeaders } from "node:http";
import type { IncomingHttpHeaders as Http2Headers, OutgoingHttpHeaders, ServerHttp2Stream } from "node:http2";
import type { Socket } from "node:net";
import type { GatewayRequest } from "../../http/request.ts";
import type { GatewayResponse } from "../../http/response.ts";
import { setContentLength } from "../content-length.ts";
import { readBody, streamBody } from "./body.ts";
import type { NodeRequest } from "./request.ts";
import { abortStream, sendStream } from "./send-stream.ts";

const ignore = (): void => {};

/** A request of HTTP/2's core API. `contextValues` gets it as a request of Node, of which it has the properties that describe the request. */
export class Http2StreamRequest implements GatewayRequest {
  readonly httpVersionMajor = 2;
  readonly httpVersion = "2.0";
  readonly stream: ServerHttp2Stream;
  readonly headers: IncomingHttpHeaders;
  readonly #contextValues: ((request: NodeRequest) => ContextValues) | undefined;
  #expectsContinue: boolean;

  constructor(
    stream: ServerHttp2Stream,
    headers: Http2Headers,
    contextValues: ((request: NodeRequest) => ContextValues) | undefined,
  ) {
    this.stream = stream;
    this.headers = headers;
    this.#contextValues = contextValues;
    this.#expectsContinue = headers.expect !== undefined;
    // The end of the stream is reported by `close` too.
    stream.on("error", ignore);
  }

  get httpMethod(): string {
    return (this.headers as Http2Headers)[":method"] ?? "";
  }

  get target(): string {
    return (this.headers as Http2Headers)[":path"] ?? "";
  }

  get method(): string {
    return this.httpMethod;
  }

  get socket(): Socket | undefined {
    return this.stream.session?.socket;
  }

  url(): string {
    const { ":scheme": scheme = "http", ":authority": authority, host } = this.headers as Http2Headers;
    return `${scheme}://${authority ?? host ?? "localhost"}${this.target}`;
  }

  contextValues(): ContextValues | undefined {
    return this.#contextValues?.(this as unknown as NodeRequest);
  }

  onAbort(callback: () => void): void {
    const { stream } = this;
    const onClose = (): void => {
      // Node also ends the writable side of a stream that the client has reset.
      if (!stream.writableEnded || stream.aborted) {
        callback();
      }
    };
    if (stream.destroyed) {
      onClose();
    } else {
      stream.on("close", onClose);
    }
  }

  hasBody(): boolean {
    return !this.stream.endAfterHeaders;
  }

  readBody(maxBytes: number): Promise<Uint8Array> {
    const length = this.headers["content-length"];
    if (length === undefined || Number(length) <= maxBytes) {
      this.#continue();
    }
    return readBody(this.stream, length, maxBytes);
  }

  streamBody(): AsyncIterable<Uint8Array> {
    this.#continue();
    return streamBody(this.stream);
  }

  #continue(): void {
    const { stream } = this;
    if (this.#expectsContinue && !stream.headersSent && !stream.destroyed && !stream.closed) {
      this.#expectsContinue = false;
      stream.additionalHeaders({ ":status": 100 });
    }
  }
}

/**
 * Sends the head of a response on a stream of HTTP/2's core API, and its trailers once the body is sent, which is left to the caller.
 * Returns the encoding in which a text body is to be written.
 */
export function sendHead(response: GatewayResponse, stream: ServerHttp2Stream, httpMethod: string): "latin1" | "utf8" {
  const { status, headers, body, trailers } = response;
  const encoding = setContentLength(response, httpMethod);
  // Connection-specific fields are not allowed (RFC 9113, section 8.2.2).
  if (headers["connection"] !== undefined) {
    delete headers["connection"];
  }
  const head = headers as OutgoingHttpHeaders;
  head[":status"] = status;
  if (trailers === undefined && (body === undefined || typeof body === "string" || body instanceof Uint8Array)) {
    stream.respond(head, body === undefined ? { endStream: true } : undefined);
    return encoding;
  }
  // Also for a stream without trailers: otherwise Node ends it as if it were complete when it is aborted.
  stream.on("wantTrailers", () => {
    try {
      stream.sendTrailers(trailers ?? {});
    } catch {
      // An event handler has no caller to throw to; the client detects the incomplete response.
      abortStream(stream);
    }
  });
  stream.respond(head, { waitForTrailers: true });
  return encoding;
}

export function respondOnStream(response: GatewayResponse, request: Http2StreamRequest): void {
  const { stream, httpMethod } = request;
  const { body } = response;
  const isStream = body !== undefined && typeof body !== "string" && !(body instanceof Uint8Array);
  if (stream.headersSent || stream.destroyed || stream.closed) {
    if (isStream) {
      body[Symbol.asyncIterator]().return?.().catch(ignore);
    }
    return;
  }
  const encoding = sendHead(response, stream, httpMethod);
  if (isStream) {
    void sendStream(body, stream).then(() => drain(stream));
    return;
  }
  // Node has already ended the stream if the response can't have a body, and for HEAD.
  if (!stream.writableEnded) {
    stream.end(body, encoding);
  }
  drain(stream);
}

/** Reads the rest of the body, so that the client is not left blocked by flow control. */
function drain(stream: ServerHttp2Stream): void {
  if (stream.readableDidRead && !stream.readableEnded) {
    stream.resume();
  }
}
