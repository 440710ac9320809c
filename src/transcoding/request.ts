import type { CallOrigin } from "./call.ts";

/** A request, whichever server received it. */
export type TranscodingRequest = CallOrigin & {
  /** As it was sent, percent-escapes and query included. */
  readonly target: string;
  /** Whether a body was sent; it may be empty. */
  hasBody(): boolean;
  /** The whole body; rejects with a Fault 413 where it is longer. */
  readBody(maxBytes: number): Promise<Uint8Array>;
};
