import type { Message } from "@bufbuild/protobuf";
import type { CancellableIterator } from "../../call/cancellable-iterator.ts";
import { type Failure, StreamFrames } from "../../call/stream-frames.ts";
import type { Codec } from "./codec.ts";
import { type MessageCompression, compressMinBytes } from "./compression.ts";
import { envelope } from "./envelope.ts";

type EndHandlers = {
  /** Returns the last frame, if the protocol has one. If it throws, the status can't be encoded, and the response is aborted. */
  readonly formatEnd: (error?: unknown) => Uint8Array | undefined;
  /** Called once when the stream ends; with the error if it fails. */
  readonly onEnd: (error?: unknown) => void;
};

/** An envelope for each message. Errors of the call are reported by the last frame or the trailers. */
export class ResponseFrames extends StreamFrames<Uint8Array> {
  readonly #codec: Codec;
  readonly #compression: MessageCompression | undefined;
  readonly #handlers: EndHandlers;

  constructor(
    messages: CancellableIterator<Message>,
    codec: Codec,
    compression: MessageCompression | undefined,
    handlers: EndHandlers,
  ) {
    super(messages);
    this.#codec = codec;
    this.#compression = compression;
    this.#handlers = handlers;
  }

  protected encode(message: Message): Uint8Array | undefined {
    if (this.#compression === undefined) {
      return this.#codec.envelope(message);
    }
    const bytes = this.#codec.encode(message);
    if (bytes.length < compressMinBytes) {
      return envelope(0, bytes);
    }
    this.#codec.compressEnvelope(message, bytes, this.#compression).then(
      (frame) => this.encoded(frame),
      (error: unknown) => this.close(error),
    );
    return undefined;
  }

  protected formatEnd(failure?: Failure): ReturnType<StreamFrames<Uint8Array>["formatEnd"]> {
    try {
      return { frame: this.#handlers.formatEnd(failure?.error) };
    } catch (error) {
      return { failure: { error } };
    }
  }

  protected onEnd(failure?: Failure): void {
    this.#handlers.onEnd(failure?.error);
  }
}
