import type { IncomingHttpHeaders, IncomingMessage, OutgoingHttpHeaders, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import type { GatewayResponse } from "@flowgate/gateway";
import { type BodyReservation, readBody, sendStream, setContentLength, streamBody } from "@flowgate/gateway/server";
import type { AcceptedConnection } from "./connection.ts";
import type { Exchange, ExchangeObserver } from "./exchange.ts";

export interface Http1ConnectionContext {
  readonly origin: AcceptedConnection;
  /** The next response is the last one of the connection. */
  mustClose(): boolean;
  /** Called when the response is sent, or the connection is closed. */
  closed(exchange: Http1Exchange): void;
}

export class Http1Exchange implements Exchange {
  readonly httpVersionMajor = 1;
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  observer: ExchangeObserver | undefined;
  hasShortBody = false;
  isAuthenticated = false;
  readonly #connection: Http1ConnectionContext;
  #expectsContinue: boolean;

  constructor(
    request: IncomingMessage,
    response: ServerResponse,
    connection: Http1ConnectionContext,
    expectsContinue: boolean,
  ) {
    this.request = request;
    this.response = response;
    this.#connection = connection;
    this.#expectsContinue = expectsContinue;
    response.on("close", () => {
      connection.closed(this);
      this.observer?.closed();
    });
  }

  get httpVersion(): string {
    return this.request.httpVersion;
  }

  get method(): string {
    return this.request.method ?? "";
  }

  get target(): string {
    return this.request.url ?? "";
  }

  get headers(): IncomingHttpHeaders {
    return this.request.headers;
  }

  get rawHeaders(): readonly string[] {
    return this.request.rawHeaders;
  }

  get socket(): Socket {
    return this.request.socket;
  }

  get origin(): AcceptedConnection {
    return this.#connection.origin;
  }

  get remoteAddress(): string {
    return this.#connection.origin.remoteAddress;
  }

  get status(): number {
    return this.response.statusCode;
  }

  get isSent(): boolean {
    return this.response.writableEnded;
  }

  get isClosed(): boolean {
    return this.response.destroyed || this.response.writableEnded;
  }

  get hasLongUnreadBody(): boolean {
    const { "content-length": length, "transfer-encoding": encoding } = this.request.headers;
    return !this.request.complete && (length === undefined ? encoding !== undefined : Number(length) > maxDrainBytes);
  }

  hasBody(): boolean {
    const { "content-length": length, "transfer-encoding": encoding } = this.request.headers;
    return length === undefined ? encoding !== undefined : length !== "0";
  }

  readBody(maxBytes: number, reservation?: BodyReservation): Promise<Uint8Array> {
    const { "content-length": length } = this.request.headers;
    if (length === undefined || Number(length) <= maxBytes) {
      this.#continue();
    }
    return readBody(this.request, length, maxBytes, reservation);
  }

  streamBody(): AsyncIterable<Uint8Array> {
    this.#continue();
    return streamBody(this.request);
  }

  send(result: GatewayResponse): void {
    const { response } = this;
    if (response.headersSent || response.destroyed) {
      return;
    }
    const { status, headers, body, trailers } = result;
    const encoding = setContentLength(result, this.method);
    if (this.#connection.mustClose()) {
      response.shouldKeepAlive = false;
    }
    headers["x-content-type-options"] = "nosniff";
    response.writeHead(status, headers as OutgoingHttpHeaders);
    if (body !== undefined && typeof body !== "string" && !(body instanceof Uint8Array)) {
      void sendStream(body, response, () => this.#addTrailers(trailers)).then(() => this.#drainBody());
      return;
    }
    if (trailers === undefined) {
      if (body instanceof Uint8Array && body.length < smallBytes) {
        // Node writes a text body together with the head in one chunk. Latin-1 maps each byte to one character.
        response.end(Buffer.from(body.buffer, body.byteOffset, body.length).toString("latin1"), "latin1");
      } else {
        response.end(body, encoding);
      }
    } else {
      if (body !== undefined) {
        response.write(body, encoding);
      }
      this.#addTrailers(trailers);
      response.end();
    }
    this.#drainBody();
  }

  abort(): void {
    this.response.destroy();
  }

  #addTrailers(trailers: GatewayResponse["trailers"]): void {
    if (trailers !== undefined) {
      this.response.addTrailers(Object.entries(trailers) as [string, string][]);
    }
  }

  /** Sends 100 Continue only when the body is about to be read, so that a rejected request does not send it. */
  #continue(): void {
    const { response } = this;
    if (this.#expectsContinue && !response.headersSent && !response.destroyed) {
      this.#expectsContinue = false;
      response.writeContinue();
    }
  }

  /** Node discards the rest of a body by itself only if none of it was read. */
  #drainBody(): void {
    const { request } = this;
    if (this.hasBody() && (!request.complete || request.readableLength > 0)) {
      request.resume();
    }
  }
}

/** Converting a larger body to text costs more than a second write. */
const smallBytes = 8 * 1024;

/** The longest unread body that is drained so that the connection can be reused. */
const maxDrainBytes = 64 * 1024;
