import type { DescMethod } from "@bufbuild/protobuf";
import type { Code, ContextValues } from "@connectrpc/connect";

/** The HTTP request of a call, as far as the call's context uses it. The methods compute their result on demand. */
export type CallOrigin = {
  readonly httpMethod: string;
  readonly headers: RequestHeaders;
  url(): string;
  contextValues(): ContextValues | undefined;
  /** Calls back when the client disconnects before the response is complete; immediately if it already has. */
  onAbort(callback: () => void): void;
};

/** An HTTP request, independent of the server that received it. */
export type GatewayRequest = CallOrigin & {
  /** 1 or 2. HTTP/1 clients can't be relied on to read a response before they have sent the whole request. */
  readonly httpVersionMajor: number;
  /** The request target as it was sent: path and query, still percent-encoded. */
  readonly target: string;
  /** True if the request has a body, which may be empty. */
  hasBody(): boolean;
  /** Reads the whole body. Rejects with a RequestError of status 413 if it exceeds `maxBytes`. */
  readBody(maxBytes: number): Promise<Uint8Array>;
  /** Streams the body; not to be combined with `readBody`. Ending the iteration early leaves the rest unread. */
  streamBody(): AsyncIterable<Uint8Array>;
  /**
   * Reserves memory. Called with a number of bytes before a body is decompressed to at most that many, and with the
   * length and the bytes of the body before it is decoded. Not called for 64 KiB or less (`smallBodyBytes`). If it
   * returns a promise, the gateway waits for it; an error that it throws or rejects with ends the call. Each call
   * replaces the previous one: a body that turns out to be longer is decompressed again from its start, so that only
   * its compressed bytes are in memory during the delay. Default: `readMaxBytes` is the only limit.
   */
  reserve?(bytes: number, body?: Uint8Array): Promise<void> | undefined;
  /** Called when a call of the method begins, with the format of its messages. */
  begin?(method: DescMethod, format: "json" | "proto"): void;
  /**
   * Called with the code of an error before its response is created, for logs and metrics: the RPC protocols send it in a trailer
   * or in the body. A later call for the same request is for a consequence of the first error.
   */
  fail?(code: Code): void;
};

/** Bodies of up to this size are decompressed and decoded without a reservation. */
export const smallBodyBytes: number = 64 * 1024;

/**
 * Request headers by lower-case name, as in Node's IncomingHttpHeaders. Headers that are not lists have a single value.
 */
export type RequestHeaders = {
  readonly [name: string]: string | string[] | undefined;
  readonly accept?: string | undefined;
  readonly "accept-encoding"?: string | undefined;
  readonly "access-control-request-method"?: string | undefined;
  readonly "content-encoding"?: string | undefined;
  readonly "content-type"?: string | undefined;
  readonly "if-match"?: string | undefined;
  readonly "if-none-match"?: string | undefined;
  readonly origin?: string | undefined;
};
