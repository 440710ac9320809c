import type { CallOrigin } from "./context.ts";

/** A request, whichever server received it. */
export type TranscodingRequest = CallOrigin & {
  /** 1 or 2: over HTTP/1 nobody can count on an answer that begins before the request has ended. */
  readonly httpVersionMajor: number;
  /** As it was sent, percent-escapes and query included. */
  readonly target: string;
  /** Whether a body was sent; it may be empty. */
  hasBody(): boolean;
  /** The whole body; rejects with a Fault 413 where it is longer. */
  readBody(maxBytes: number): Promise<Uint8Array>;
  /** The body as it arrives, for client streams; not after readBody. Ending the iteration leaves the rest unread. */
  streamBody(): AsyncIterable<Uint8Array>;
};
