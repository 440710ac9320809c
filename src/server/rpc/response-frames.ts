import type { Message } from "@bufbuild/protobuf";
import type { Compression } from "@connectrpc/connect/protocol";
import { FlowgateError } from "../../errors.ts";
import type { CancellableIterator } from "@flowgate/transcoding/server";
import type { Codec } from "./codec.ts";
import { compressedFlag, envelope } from "./envelope.ts";
import { compressMinBytes } from "./negotiate.ts";

type Ending = {
  /** Called once when the messages have ended, or with what they failed with. Returns the last frame, if there is one. */
  readonly end: (error?: unknown) => Buffer | undefined;
  /** Called instead if the client is gone. */
  readonly left: () => void;
};

type Frame = IteratorResult<Buffer, undefined>;

const done: Frame = { done: true, value: undefined };

/**
 * The body of a response that streams: an envelope for each message, and a last frame. A failure does not reject: the last
 * frame, or the trailers, say it. No message is asked for before the previous one was taken. Not a generator:
 * `return` has to reach the implementation while a message is awaited, and a stream that waits should cost little memory.
 */
export class ResponseFrames implements AsyncIterableIterator<Buffer, undefined> {
  readonly #source: CancellableIterator<Message>;
  readonly #codec: Codec;
  readonly #compression: Compression | undefined;
  readonly #ending: Ending;
  #first: Frame | undefined;
  /** The last frame, until it is asked for. */
  #last: Frame | undefined;
  #isOver = false;
  /** Of the frame that is asked for at the moment. */
  #pending: PromiseWithResolvers<Frame> | undefined;

  constructor(
    source: CancellableIterator<Message>,
    codec: Codec,
    compression: Compression | undefined,
    ending: Ending,
  ) {
    this.#source = source;
    this.#codec = codec;
    this.#compression = compression;
    this.#ending = ending;
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
    if (this.#isOver) {
      const last = this.#last ?? done;
      this.#last = undefined;
      return Promise.resolve(last);
    }
    this.#pending = Promise.withResolvers();
    const { promise } = this.#pending;
    this.#source.next().then(
      (result) => this.#take(result),
      (error: unknown) => this.#fail(error),
    );
    return promise;
  }

  /** Ends the stream with UNAVAILABLE: the server closes. */
  close(): void {
    this.#source.cancel();
    this.#fail(new FlowgateError("unavailable", "the service is closing"));
  }

  return(): Promise<Frame> {
    this.#source.cancel();
    if (!this.#isOver) {
      this.#isOver = true;
      this.#ending.left();
      this.#give(done);
    }
    return Promise.resolve(done);
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  #take(result: IteratorResult<Message>): void {
    if (this.#isOver) {
      return;
    }
    if (result.done === true) {
      this.#end();
      return;
    }
    try {
      const bytes = this.#compression === undefined ? undefined : this.#codec.encode(result.value);
      if (bytes === undefined || bytes.length < compressMinBytes) {
        this.#give({ done: false, value: this.#codec.envelope(result.value) });
        return;
      }
      this.#compression?.compress(bytes).then(
        (compressed) => this.#give({ done: false, value: envelope(compressedFlag, compressed) }),
        (error: unknown) => this.#fail(error),
      );
    } catch (error) {
      // A message that can't be encoded ends the stream as a failure of the implementation would.
      this.#source.cancel();
      this.#fail(error);
    }
  }

  #fail(error: unknown): void {
    if (!this.#isOver) {
      this.#end(error);
    }
  }

  #end(error?: unknown): void {
    this.#isOver = true;
    let last: Buffer | undefined;
    try {
      last = this.#ending.end(error);
    } catch (failure) {
      // A status that can't be written: the response breaks off.
      this.#pending?.reject(failure);
      this.#pending = undefined;
      return;
    }
    const frame: Frame = last === undefined ? done : { done: false, value: last };
    if (this.#pending === undefined) {
      this.#last = frame;
    } else {
      this.#give(frame);
    }
  }

  #give(frame: Frame): void {
    this.#pending?.resolve(frame);
    this.#pending = undefined;
  }
}
