import type { IncomingHttpHeaders } from "node:http";
import {
  type Http2Stream,
  type IncomingHttpHeaders as Http2Headers,
  type OutgoingHttpHeaders,
  type ServerHttp2Stream,
  constants,
} from "node:http2";
import type { Socket } from "node:net";
import { type TranscodingResponse, readBody, sendStream, streamBody } from "@flowgate/transcoding/server";
import { describeBody, type Exchange, type ExchangeObserver } from "./exchange.ts";
import { gracefulCloseMs } from "./graceful-close.ts";
import type { ThroughputWindow } from "./throughput.ts";

const ignore = (): void => {};

/** The connection that a stream came on. */
export interface Http2Exchanges {
  readonly socket: Socket;
  readonly remoteAddress: string;
  /** A chunk of a body was read. */
  received(bytes: number): void;
  /** The stream is closed. */
  closed(exchange: Http2Exchange): void;
}

export class Http2Exchange implements Exchange {
  readonly httpVersionMajor = 2;
  readonly httpVersion = "2.0";
  readonly stream: ServerHttp2Stream;
  readonly headers: IncomingHttpHeaders;
  readonly rawHeaders: readonly string[];
  readonly startMs = performance.now();
  /** How much of the body was read, and how fast. */
  bodyBytes = 0;
  readonly body: ThroughputWindow;
  /** How much of the response is not sent, and since when none of it was. */
  unsentBytes = 0;
  unsentMs: number;
  observer: ExchangeObserver | undefined;
  readonly #connection: Http2Exchanges;
  #expectsContinue: boolean;

  constructor(
    stream: ServerHttp2Stream,
    headers: Http2Headers,
    rawHeaders: readonly string[],
    connection: Http2Exchanges,
  ) {
    this.stream = stream;
    this.headers = headers;
    this.rawHeaders = rawHeaders;
    this.#connection = connection;
    this.#expectsContinue = headers.expect !== undefined;
    this.body = { startMs: this.startMs, bytes: 0 };
    this.unsentMs = this.startMs;
    stream.on("error", ignore);
    stream.on("close", () => {
      connection.closed(this);
      this.observer?.closed();
    });
  }

  get method(): string {
    return (this.headers as Http2Headers)[":method"] ?? "";
  }

  get target(): string {
    return (this.headers as Http2Headers)[":path"] ?? "";
  }

  get socket(): Socket {
    return this.#connection.socket;
  }

  get remoteAddress(): string {
    return this.#connection.remoteAddress;
  }

  get status(): number {
    return Number(this.stream.sentHeaders?.[":status"] ?? 200);
  }

  get isSent(): boolean {
    // Node also ends the writable side of a stream that the client has reset.
    return this.stream.headersSent && this.stream.writableEnded && !this.stream.aborted;
  }

  get isClosed(): boolean {
    const { stream } = this;
    return stream.destroyed || stream.closed || (stream.headersSent && stream.writableEnded);
  }

  get hasLongBodyLeft(): boolean {
    return false;
  }

  hasBody(): boolean {
    return !this.stream.endAfterHeaders;
  }

  readBody(maxBytes: number): Promise<Uint8Array> {
    const { "content-length": length } = this.headers;
    if (length === undefined || Number(length) <= maxBytes) {
      this.#continue();
    }
    // Before the body's own listener, so that what exceeds the limit is counted too.
    this.stream.on("data", this.#count);
    return readBody(this.stream, length, maxBytes);
  }

  async *streamBody(): AsyncGenerator<Uint8Array> {
    this.#continue();
    for await (const chunk of streamBody(this.stream)) {
      this.#count(chunk);
      yield chunk;
    }
  }

  send(answer: TranscodingResponse): void {
    const { stream } = this;
    if (stream.headersSent || stream.destroyed || stream.closed) {
      return;
    }
    const { status, headers, body, trailers } = answer;
    const encoding = describeBody(answer, this.method);
    // RFC 9113, section 8.2.2.
    delete headers["connection"];
    const head = headers as OutgoingHttpHeaders;
    head[":status"] = status;
    if (trailers !== undefined) {
      stream.once("wantTrailers", () => {
        try {
          stream.sendTrailers(trailers);
        } catch {
          // An event handler has no caller to tell; the client sees that the response is incomplete.
          this.abort();
        }
      });
      stream.respond(head, { waitForTrailers: true });
    } else {
      stream.respond(head, body === undefined ? { endStream: true } : undefined);
    }
    if (body === undefined || typeof body === "string" || Buffer.isBuffer(body)) {
      // Node has ended the stream of a response that can't have a body, and of HEAD.
      if (!stream.writableEnded) {
        stream.end(body, encoding);
      }
      this.#skipBody();
    } else {
      void sendStream(body, stream).then(() => this.#skipBody());
    }
  }

  abort(): void {
    this.stream.close(constants.NGHTTP2_INTERNAL_ERROR);
  }

  readonly #count = (chunk: Uint8Array): void => {
    this.bodyBytes += chunk.length;
    this.#connection.received(chunk.length);
  };

  #continue(): void {
    const { stream } = this;
    if (this.#expectsContinue && !stream.headersSent && !stream.destroyed && !stream.closed) {
      this.#expectsContinue = false;
      stream.additionalHeaders({ ":status": 100 });
    }
  }

  /**
   * Lets a client that is still sending its body finish, for a while: a stream that is not read is never closed, and
   * a reset (RFC 9113, section 8.1) makes Node's own client take the response for incomplete.
   */
  #skipBody(): void {
    const { stream } = this;
    if (stream.endAfterHeaders || stream.readableEnded || stream.destroyed) {
      return;
    }
    if (stream.readableDidRead) {
      this.#drain();
    }
    const timer = setTimeout(() => {
      stream.close();
      // A stream does not close while bytes of it wait to be read.
      this.#drain();
    }, gracefulCloseMs);
    stream.once("close", () => clearTimeout(timer));
  }

  #drain(): void {
    if (this.stream.listenerCount("data") === 0) {
      this.stream.on("data", this.#count);
    }
    this.stream.resume();
  }
}

/** Whether the client has sent the whole request, read or not. */
export function hasArrived(stream: Http2Stream): boolean {
  return stream.state.remoteClose === 1;
}
