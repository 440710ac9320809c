import type { Message } from "@bufbuild/protobuf";
import type { CancellableIterator } from "../../call/cancellable-iterator.ts";
import type { Codec } from "./codec.ts";
import { type Compression, compressMinBytes } from "./compression.ts";
import { envelope } from "./envelope.ts";

type EndHandlers = {
  /** Called once, after the last message or with the error. Returns the last frame, if the protocol has one. */
  readonly onEnd: (error?: unknown) => Uint8Array | undefined;
  /** Called instead if the client disconnects. */
  readonly onCancel: () => void;
};

type Frame = IteratorResult<Uint8Array, undefined>;

const done: Frame = { done: true, value: undefined };

/**
 * The body of a streaming response: an envelope for each message, and a last frame. Errors do not reject `next`; they are
 * reported by the last frame or the trailers. Requests a message only when the previous one has been consumed.
 *
 * Not a generator, because `return` must reach the implementation while `next` is pending, and because idle streams
 * should take little memory.
 */
export class ResponseFrames implements AsyncIterableIterator<Uint8Array, undefined> {
  readonly #messages: CancellableIterator<Message>;
  readonly #codec: Codec;
  readonly #compression: Compression | undefined;
  readonly #handlers: EndHandlers;
  #first: Frame | undefined;
  /** The last frame, until it is read. */
  #last: Frame | undefined;
  #isEnded = false;
  /** The pending read of a frame. */
  #pending: PromiseWithResolvers<Frame> | undefined;

  constructor(
    messages: CancellableIterator<Message>,
    codec: Codec,
    compression: Compression | undefined,
    handlers: EndHandlers,
  ) {
    this.#messages = messages;
    this.#codec = codec;
    this.#compression = compression;
    this.#handlers = handlers;
  }

  /** Waits for the first frame. */
  async start(): Promise<void> {
    this.#first = await this.next();
  }

  next(): Promise<Frame> {
    const first = this.#first;
    if (first !== undefined) {
      this.#first = undefined;
      return Promise.resolve(first);
    }
    if (this.#isEnded) {
      const last = this.#last ?? done;
      this.#last = undefined;
      return Promise.resolve(last);
    }
    this.#pending = Promise.withResolvers();
    const { promise } = this.#pending;
    this.#messages.next().then(
      (result) => this.#onMessage(result),
      (error: unknown) => this.#fail(error),
    );
    return promise;
  }

  /** Ends the stream with an error: the server closes. */
  close(error: unknown): void {
    this.#messages.cancel();
    this.#fail(error);
  }

  return(): Promise<Frame> {
    this.#messages.cancel();
    if (!this.#isEnded) {
      this.#isEnded = true;
      this.#handlers.onCancel();
      this.#deliver(done);
    }
    return Promise.resolve(done);
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  #onMessage(result: IteratorResult<Message>): void {
    if (this.#isEnded) {
      return;
    }
    if (result.done === true) {
      this.#end();
      return;
    }
    try {
      const compression = this.#compression;
      if (compression === undefined) {
        this.#deliver({ done: false, value: this.#codec.envelope(result.value) });
        return;
      }
      const bytes = this.#codec.encode(result.value);
      if (bytes.length < compressMinBytes) {
        this.#deliver({ done: false, value: envelope(0, bytes) });
        return;
      }
      this.#codec.compressEnvelope(result.value, bytes, compression).then(
        (compressed) => this.#deliver({ done: false, value: compressed }),
        (error: unknown) => this.#fail(error),
      );
    } catch (error) {
      // An encoding error ends the stream like an error of the implementation.
      this.#messages.cancel();
      this.#fail(error);
    }
  }

  #fail(error: unknown): void {
    if (!this.#isEnded) {
      this.#end(error);
    }
  }

  #end(error?: unknown): void {
    this.#isEnded = true;
    let last: Uint8Array | undefined;
    try {
      last = this.#handlers.onEnd(error);
    } catch (failure) {
      // The status can't be encoded, so the response is aborted.
      this.#pending?.reject(failure);
      this.#pending = undefined;
      return;
    }
    const frame: Frame = last === undefined ? done : { done: false, value: last };
    if (this.#pending === undefined) {
      this.#last = frame;
    } else {
      this.#deliver(frame);
    }
  }

  #deliver(frame: Frame): void {
    this.#pending?.resolve(frame);
    this.#pending = undefined;
  }
}
