import type { Message } from "@bufbuild/protobuf";
import type { CancellableIterator } from "../../call/cancellable-iterator.ts";
import { done, PollableIterator } from "../../call/pollable-iterator.ts";
import type { Codec } from "./codec.ts";
import { type MessageCompression, compressMinBytes } from "./compression.ts";
import { envelope } from "./envelope.ts";

type EndHandlers = {
  /** Returns the last frame, if the protocol has one. Called once, after the last message or with the error, unless the client disconnects. */
  readonly formatEnd: (error?: unknown) => Uint8Array | undefined;
  /** Called once when the stream ends; with the error if it fails. */
  readonly onEnd: (error?: unknown) => void;
};

type Frame = IteratorResult<Uint8Array, undefined>;

/**
 * The body of a streaming response: an envelope for each message, and a last frame. Errors of the call do not make it fail; they are
 * reported by the last frame or the trailers. Requests a message only when the previous one has been consumed.
 */
export class ResponseFrames extends PollableIterator<Uint8Array> {
  readonly #messages: CancellableIterator<Message>;
  readonly #codec: Codec;
  readonly #compression: MessageCompression | undefined;
  readonly #handlers: EndHandlers;
  /** The frames before the next message: one that is not read yet, and the last one of the stream. */
  #ready: Frame | undefined;
  #last: Frame | undefined;
  #isCompressing = false;
  #isEnded = false;
  /** The status can't be encoded, so the response is aborted. */
  #failure: { readonly error: unknown } | undefined;
  #onReady: (() => void) | undefined;

  constructor(
    messages: CancellableIterator<Message>,
    codec: Codec,
    compression: MessageCompression | undefined,
    handlers: EndHandlers,
  ) {
    super();
    this.#messages = messages;
    this.#codec = codec;
    this.#compression = compression;
    this.#handlers = handlers;
  }

  async start(): Promise<void> {
    const frame = await this.next();
    this.#last = this.#ready;
    this.#ready = frame;
  }

  poll(onReady: () => void): Frame | undefined {
    const ready = this.#ready;
    if (ready !== undefined) {
      this.#ready = this.#last;
      this.#last = undefined;
      return ready;
    }
    if (this.#isEnded) {
      if (this.#failure !== undefined) {
        throw this.#failure.error;
      }
      return done;
    }
    this.#onReady = undefined;
    let result: IteratorResult<Message, undefined> | undefined;
    try {
      result = this.#isCompressing ? undefined : this.#messages.poll(onReady);
    } catch (error) {
      this.#end(error);
    }
    // It has failed, or what the implementation has done meanwhile has closed it.
    if (this.#isEnded) {
      return this.poll(onReady);
    }
    if (result === undefined) {
      this.#onReady = onReady;
      return undefined;
    }
    if (result.done === true) {
      this.#end();
      return this.poll(onReady);
    }
    try {
      const value = this.#encode(result.value);
      if (value !== undefined) {
        return { done: false, value };
      }
    } catch (error) {
      // An encoding error ends the stream like an error of the implementation.
      this.close(error);
      return this.poll(onReady);
    }
    this.#onReady = onReady;
    return undefined;
  }

  /** Ends the stream with an error: the server closes. */
  close(error: unknown): void {
    this.#end(error);
    this.#messages.cancel();
    this.#notify();
  }

  override return(): Promise<Frame> {
    if (!this.#isEnded) {
      this.#isEnded = true;
      this.#handlers.onEnd();
    }
    this.#messages.cancel();
    this.#notify();
    return super.return();
  }

  /** The message in an envelope. Undefined: it is being compressed. */
  #encode(message: Message): Uint8Array | undefined {
    const compression = this.#compression;
    if (compression === undefined) {
      return this.#codec.envelope(message);
    }
    const bytes = this.#codec.encode(message);
    if (bytes.length < compressMinBytes) {
      return envelope(0, bytes);
    }
    this.#compress(message, bytes, compression);
    return undefined;
  }

  #compress(message: Message, bytes: Uint8Array, compression: MessageCompression): void {
    this.#isCompressing = true;
    this.#codec.compressEnvelope(message, bytes, compression).then(
      (value) => {
        this.#isCompressing = false;
        if (!this.#isEnded) {
          this.#ready = { done: false, value };
          this.#notify();
        }
      },
      (error: unknown) => this.close(error),
    );
  }

  /** What observes the end may poll, so the last frame comes before. */
  #end(error?: unknown): void {
    if (this.#isEnded) {
      return;
    }
    this.#isEnded = true;
    try {
      const last = this.#handlers.formatEnd(error);
      if (last !== undefined) {
        this.#deliver({ done: false, value: last });
      }
    } catch (failure) {
      this.#failure = { error: failure };
    }
    this.#handlers.onEnd(error);
  }

  #deliver(frame: Frame): void {
    if (this.#ready === undefined) {
      this.#ready = frame;
    } else {
      this.#last = frame;
    }
  }

  #notify(): void {
    const onReady = this.#onReady;
    this.#onReady = undefined;
    onReady?.();
  }
}
