import type { ContextValues } from "@connectrpc/connect";
import type { IncomingHttpHeaders } from "node:http";

/** What a call needs to know of the request that it came with. Nothing is computed until it is asked for. */
export type CallOrigin = {
  readonly httpMethod: string;
  readonly headers: IncomingHttpHeaders;
  url(): string;
  contextValues(): ContextValues | undefined;
  /** Calls back when the client has gone before the answer; at once where it has gone already. */
  onAbort(callback: () => void): void;
};

/** A request, whichever server received it. */
export type TranscodingRequest = CallOrigin & {
  /** 1 or 2: over HTTP/1 nobody can count on an answer that begins before the request has ended. */
  readonly httpVersionMajor: number;
  /** As it was sent, percent-escapes and query included. */
  readonly target: string;
  /** Whether a body was sent; it may be empty. */
  hasBody(): boolean;
  /** The whole body; rejects with a RequestError 413 where it is longer. */
  readBody(maxBytes: number): Promise<Uint8Array>;
  /** The body as it arrives, for client streams; not after readBody. Ending the iteration leaves the rest unread. */
  streamBody(): AsyncIterable<Uint8Array>;
};
