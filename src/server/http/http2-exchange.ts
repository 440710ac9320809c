import type { IncomingHttpHeaders } from "node:http";
import type { Http2Stream, IncomingHttpHeaders as Http2Headers, ServerHttp2Stream } from "node:http2";
import type { Socket } from "node:net";
import type { GatewayResponse } from "@flowgate/gateway";
import { type BodyReservation, readBody, sendHead, sendStream, streamBody } from "@flowgate/gateway/server";
import { type AcceptedConnection, gracefulCloseMs } from "./connection.ts";
import type { Exchange, ExchangeObserver } from "./exchange.ts";
import type { ThroughputWindow } from "./throughput.ts";

const ignore = (): void => {};

/** Error codes of RFC 9113, section 7. node:http2, which is loaded for the first connection, has them too. */
export const http2Errors = { internalError: 0x2, cancel: 0x8, enhanceYourCalm: 0xb } as const;

export interface Http2ConnectionContext {
  readonly socket: Socket;
  readonly origin: AcceptedConnection;
  closed(exchange: Http2Exchange): void;
}

export class Http2Exchange implements Exchange {
  readonly httpVersionMajor = 2;
  readonly httpVersion = "2.0";
  readonly stream: ServerHttp2Stream;
  readonly headers: IncomingHttpHeaders;
  readonly rawHeaders: readonly string[];
  readonly startMs = performance.now();
  bodyBytes = 0;
  readonly requestBody: ThroughputWindow;
  /** Bytes of the response not sent yet at the last check, and since when the client has accepted none of them. */
  unsentBytes = 0;
  unsentMs: number;
  /** The number of checks that found this wait too long. */
  unsentChecks = 0;
  observer: ExchangeObserver | undefined;
  hasShortBody = false;
  isAuthenticated = false;
  readonly #connection: Http2ConnectionContext;
  #expectsContinue: boolean;

  constructor(
    stream: ServerHttp2Stream,
    headers: Http2Headers,
    rawHeaders: readonly string[],
    connection: Http2ConnectionContext,
  ) {
    this.stream = stream;
    this.headers = headers;
    this.rawHeaders = rawHeaders;
    this.#connection = connection;
    this.#expectsContinue = headers.expect !== undefined;
    this.requestBody = { startMs: this.startMs, bytes: 0 };
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

  get origin(): AcceptedConnection {
    return this.#connection.origin;
  }

  get remoteAddress(): string {
    return this.#connection.origin.remoteAddress;
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

  get hasLongUnreadBody(): boolean {
    return false;
  }

  hasBody(): boolean {
    return !this.stream.endAfterHeaders;
  }

  readBody(maxBytes: number, reservation?: BodyReservation): Promise<Uint8Array> {
    const { "content-length": length } = this.headers;
    if (length === undefined || Number(length) <= maxBytes) {
      this.#continue();
    }
    // Registered before readBody's own listener, so that bytes beyond the limit are counted too.
    this.stream.on("data", this.#count);
    return readBody(this.stream, length, maxBytes, reservation);
  }

  async *streamBody(): AsyncGenerator<Uint8Array> {
    this.#continue();
    for await (const chunk of streamBody(this.stream)) {
      this.#count(chunk);
      yield chunk;
    }
  }

  send(response: GatewayResponse): void {
    const { stream } = this;
    if (stream.headersSent || stream.destroyed || stream.closed) {
      return;
    }
    const { body } = response;
    response.headers["x-content-type-options"] = "nosniff";
    const encoding = sendHead(response, stream, this.method);
    if (
      isWhole(body) &&
      (this.isAuthenticated || body === undefined || body.length <= partBytes || stream.writableEnded)
    ) {
      // Node has already ended the stream if the response can't have a body, and for HEAD.
      if (!stream.writableEnded) {
        stream.end(body, encoding);
      }
      this.#drainBody();
    } else {
      // All bytes written so far were accepted.
      stream.on("drain", () => {
        this.unsentBytes = 0;
      });
      void sendStream(isWhole(body) ? partsOf(body, encoding) : body, stream).then(() => this.#drainBody());
    }
  }

  abort(): void {
    this.stream.close(http2Errors.internalError);
  }

  readonly #count = (chunk: Uint8Array): void => {
    this.bodyBytes += chunk.length;
  };

  #continue(): void {
    const { stream } = this;
    if (this.#expectsContinue && !stream.headersSent && !stream.destroyed && !stream.closed) {
      this.#expectsContinue = false;
      stream.additionalHeaders({ ":status": 100 });
    }
  }

  /**
   * Drains the unread request body for up to `gracefulCloseMs`, so that the stream can close. Resetting it at once
   * (RFC 9113, section 8.1) would make Node's own client treat the response as incomplete.
   */
  #drainBody(): void {
    const { stream } = this;
    if (stream.endAfterHeaders || stream.readableEnded || stream.destroyed) {
      return;
    }
    if (stream.readableDidRead) {
      this.#discard();
    }
    const timer = setTimeout(() => {
      stream.close();
      // A stream does not close while it has unread bytes.
      this.#discard();
    }, gracefulCloseMs);
    stream.once("close", () => clearTimeout(timer));
  }

  #discard(): void {
    if (this.stream.listenerCount("data") === 0) {
      this.stream.on("data", this.#count);
    }
    this.stream.resume();
  }
}

/** The size of a DATA frame of Node. */
const partBytes = 16 * 1024;

function isWhole(body: GatewayResponse["body"]): body is string | Uint8Array | undefined {
  return body === undefined || typeof body === "string" || body instanceof Uint8Array;
}

/** Node does not report how much of one write the client has accepted. */
async function* partsOf(body: string | Uint8Array = "", encoding: BufferEncoding): AsyncGenerator<Uint8Array> {
  const bytes = typeof body === "string" ? Buffer.from(body, encoding) : body;
  for (let at = 0; at < bytes.length; at += partBytes) {
    yield bytes.subarray(at, at + partBytes);
  }
}

/** True if the client has sent the whole request, including bytes not read yet. */
export function hasArrived(stream: Http2Stream): boolean {
  return stream.state.remoteClose === 1;
}
