import type { IncomingHttpHeaders } from "node:http";
import type { Socket } from "node:net";
import type { GatewayResponse } from "@flowgate/gateway";
import type { BodyReservation } from "@flowgate/gateway/server";
import type { AcceptedConnection } from "./connection.ts";
import { errorResponse } from "./error-response.ts";

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
  readonly socket: Socket;
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
  /** True if a body that does not arrive within seconds ends the request. Defaults to false. */
  hasShortBody: boolean;
  /** True if the caller had a valid token or identity. Defaults to false. */
  isAuthenticated: boolean;
  /** True if the unread request body is so long that the connection is closed rather than drained for reuse. */
  readonly hasLongUnreadBody: boolean;
  /** True if the request has a body, which may be empty. */
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

/** The time limit for the arrival of a short body. */
export const shortBodyTimeoutMs = 3_000;

/** The 417 response to an expectation other than 100-continue (RFC 9110, section 10.1.1); undefined if there is none. */
export function expectationError({ expect }: IncomingHttpHeaders): GatewayResponse | undefined {
  return expect === undefined || expect.toLowerCase() === "100-continue"
    ? undefined
    : errorResponse(417, "the only supported expectation is 100-continue");
}

/**
 * The 400 response to several Host fields (RFC 9112, section 3.2) or Authorization fields (RFC 6750, section 3.1), of which Node keeps
 * the first one: recipients along the path could disagree about which one counts. undefined: neither is repeated.
 *
 * `rawHeaders` has names and values in turn.
 */
export function repeatedFieldError(rawHeaders: readonly string[]): GatewayResponse | undefined {
  let hosts = 0;
  let authorizations = 0;
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const name = rawHeaders[at] as string;
    // The length is compared first, since this runs for each request.
    if (name.length === hostLength) {
      hosts += name.toLowerCase() === "host" ? 1 : 0;
    } else if (name.length === authorizationLength) {
      authorizations += name.toLowerCase() === "authorization" ? 1 : 0;
    }
  }
  if (hosts > 1) {
    return errorResponse(400, "there must be one Host field", { headers: { connection: "close" } });
  }
  return authorizations > 1
    ? errorResponse(400, "there must be at most one Authorization field", {
        headers: { "www-authenticate": 'Bearer error="invalid_request"' },
      })
    : undefined;
}

const hostLength = "host".length;
const authorizationLength = "authorization".length;
