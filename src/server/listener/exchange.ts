import type { IncomingHttpHeaders } from "node:http";
import type { Socket } from "node:net";
import type { TranscodingResponse } from "@flowgate/transcoding/server";

/** Follows an exchange. */
export interface ExchangeObserver {
  /** The exchange is over, whatever the reason. */
  closed(): void;
  /** Something that is not HTTP came in the middle of the request, and was answered with this status. */
  interrupted(status: number): void;
}

/** One request and its response, over either version of HTTP. */
export interface Exchange {
  readonly httpVersionMajor: 1 | 2;
  /** "1.0", "1.1" or "2.0". */
  readonly httpVersion: string;
  readonly method: string;
  /** The request target as it was sent; empty for CONNECT over HTTP/2. */
  readonly target: string;
  readonly headers: IncomingHttpHeaders;
  /** Names and values in turn, as they were sent. */
  readonly rawHeaders: readonly string[];
  /** The connection; with TLS, the secured one. */
  readonly socket: Socket;
  /** The peer's address, also when the connection is closed. */
  readonly remoteAddress: string;
  /** Of the response; 200 until it has been sent. */
  readonly status: number;
  /** The response was sent, up to its end. */
  readonly isSent: boolean;
  /** Nothing can be sent any more: the response is complete, or the client is gone. */
  readonly isClosed: boolean;
  observer: ExchangeObserver | undefined;
  /** A long body has not been read yet: the connection can serve the next request only after discarding it. */
  readonly hasLongBodyLeft: boolean;
  /** Whether a body was sent; it may be empty. */
  hasBody(): boolean;
  /** The whole body; rejects with a RequestError if it is longer than `maxBytes`, or the client is gone. */
  readBody(maxBytes: number): Promise<Uint8Array>;
  /** The body as it arrives. Ending the iteration leaves the rest unread. */
  streamBody(): AsyncIterable<Uint8Array>;
  /** Sends the response; of several, the first. Does nothing if the client is gone. */
  send(answer: TranscodingResponse): void;
  /** Breaks the response off so that no client takes it for complete. */
  abort(): void;
}

/** Serves a request. `refusal` is the response, if the request violates HTTP itself. */
export type ExchangeHandler = (exchange: Exchange, refusal: TranscodingResponse | undefined) => void;

/** Sets Content-Length where the response has none, and returns how its text goes out fastest. */
export function describeBody({ status, headers, body, trailers }: TranscodingResponse, method: string): BufferEncoding {
  if (typeof body === "string" || Buffer.isBuffer(body)) {
    if (trailers !== undefined) {
      return "utf8";
    }
    const bytes = Buffer.byteLength(body);
    headers["content-length"] = String(bytes);
    // Text of as many bytes as characters is ASCII, which needs no conversion as Latin-1.
    return bytes === body.length ? "latin1" : "utf8";
  }
  if (
    body === undefined &&
    trailers === undefined &&
    headers["content-length"] === undefined &&
    status !== 204 &&
    status !== 304 &&
    method !== "HEAD"
  ) {
    headers["content-length"] = "0";
  }
  return "utf8";
}
