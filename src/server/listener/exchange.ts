import type { IncomingHttpHeaders } from "node:http";
import type { Socket } from "node:net";
import type { BodyReservation, GatewayResponse } from "@flowgate/gateway/server";
import type { AcceptedConnection } from "./accepted-connection.ts";

/** Receives the events of an exchange. */
export interface ExchangeObserver {
  /** The response was sent, or the exchange was aborted. */
  closed(): void;
  /** The listener responded with this status because the request body was malformed or late. */
  interrupted(status: number): void;
}

/** One request and its response, over HTTP/1.1 or HTTP/2. */
export interface Exchange {
  readonly httpVersionMajor: 1 | 2;
  /** "1.0", "1.1" or "2.0". */
  readonly httpVersion: string;
  readonly method: string;
  /** The request target as received; empty for CONNECT over HTTP/2. */
  readonly target: string;
  readonly headers: IncomingHttpHeaders;
  /** Names and values in turn, as received. */
  readonly rawHeaders: readonly string[];
  /** The connection; with TLS, the TLS socket. */
  readonly socket: Socket;
  /** The connection that was accepted. */
  readonly origin: AcceptedConnection;
  /** The peer's address; remains available after the connection has closed. */
  readonly remoteAddress: string;
  /** Status of the response; 200 until the response is sent. */
  readonly status: number;
  /** The response was sent completely. */
  readonly isSent: boolean;
  /** Nothing can be sent any more: the response is complete, or the connection or stream is closed. */
  readonly isClosed: boolean;
  observer: ExchangeObserver | undefined;
  /** Whether a body that does not arrive within seconds ends the request. Defaults to false. */
  hasShortBody: boolean;
  /** Whether the caller had a valid token or identity. Defaults to false. */
  isAuthenticated: boolean;
  /** Whether the unread request body is so long that the connection is closed rather than drained for reuse. */
  readonly hasLongUnreadBody: boolean;
  /** Whether the request has a body, which may be empty. */
  hasBody(): boolean;
  /** The whole body. Rejects with a RequestError if it exceeds `maxBytes`, or the client disconnects. */
  readBody(maxBytes: number, reservation?: BodyReservation): Promise<Uint8Array>;
  /** The body in chunks as they arrive. Ending the iteration leaves the rest unread. */
  streamBody(): AsyncIterable<Uint8Array>;
  /** Sends the response. Does nothing after the first call, or if the connection or stream is closed. */
  send(response: GatewayResponse): void;
  /** Terminates the response in a way that clients detect as incomplete. */
  abort(): void;
}

/** Serves a request. `rejection` is the response to send if the request violates HTTP. */
export type ExchangeHandler = (exchange: Exchange, rejection: GatewayResponse | undefined) => void;

/** How long a short body may take to arrive. */
export const shortBodyTimeoutMs = 3_000;
