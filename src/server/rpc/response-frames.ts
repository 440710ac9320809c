import type { Message } from "@bufbuild/protobuf";
import type { Compression } from "@connectrpc/connect/protocol";
import { FlowgateError } from "../../errors.ts";
import type { Source } from "../../transcoding/core.ts";
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
 * The body of a response that streams: an envelope for each message, and a last frame. It never rejects: a failure is what
 * the last frame, or the trailers, are there for. No message is asked for before the previous one was taken. Not a generator:
 * `return` has to reach the implementation while a message is awaited, and a stream that waits should cost little memory.
 */
export class ResponseFrames implements AsyncIterableIterator<Buffer, undefined> {
  readonly #source: Source<Message>;
  readonly #codec: Codec;
  readonly #compression: Compression | undefined;
  readonly #ending: Ending;
  #first: Frame | undefined;
  #isOver = false;
  #settle: ((frame: Frame) => void) | undefined;

  constructor(source: Source<Message>, codec: Codec, compression: Compression | undefined, ending: Ending) {
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
      return Promise.resolve(done);
    }
    return new Promise((resolve) => {
      this.#settle = resolve;
      this.#source.next().then(
        (result) => this.#take(result),
        (error: unknown) => this.#fail(error),
      );
    });
  }

  /** Ends the stream with UNAVAILABLE: the server closes. */
  close(): void {
    this.#source.leave();
    this.#fail(new FlowgateError("unavailable", "the service is closing"));
  }

  return(): Promise<Frame> {
    this.#source.leave();
    if (!this.#isOver) {
      this.#isOver = true;
      this.#ending.left();
      this.#settle?.(done);
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
        this.#settle?.({ done: false, value: this.#codec.envelope(result.value) });
        return;
      }
      this.#compression?.compress(bytes).then(
        (compressed) => this.#settle?.({ done: false, value: envelope(compressedFlag, compressed) }),
        (error: unknown) => this.#fail(error),
      );
    } catch (error) {
      // A message that can't be encoded ends the stream as a failure of the implementation would.
      this.#source.leave();
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
    const last = this.#ending.end(error);
    const settle = this.#settle;
    if (last === undefined) {
      settle?.(done);
    } else if (settle === undefined) {
      // Nobody asks for a frame at this moment.
      this.#first = { done: false, value: last };
    } else {
      settle({ done: false, value: last });
    }
    this.#settle = undefined;
  }
}
