import type { Message } from "@bufbuild/protobuf";
import type { CancellableIterator } from "../../../call/cancellable-iterator.ts";
import type { Framing } from "./framing.ts";

/** The encoded message with its delimiters; bytes if it is shared by several responses. */
export type Chunk = string | Uint8Array;

export type MessageFramesOptions = {
  readonly framing: Pick<Framing, "error" | "wrapsErrors" | "heartbeat">;
  /** Encodes a message with its delimiters. */
  readonly encode: (message: Message, isFirst: boolean) => Chunk;
  /** The last chunk of a successful stream; may be empty. */
  readonly end: string;
  /** Formats an error after the first message as JSON. `isWrapped`: the framing writes it below a key `error`. */
  readonly formatError: (error: unknown, isWrapped: boolean) => string;
  /** The interval of heartbeats while no message is sent, in ms; 0 disables them. */
  readonly heartbeatMs: number;
  /** Called once when the stream ends; with the error if it fails. */
  readonly onEnd: (error?: unknown) => void;
};

type Frame = IteratorResult<Chunk, undefined>;

const done: Frame = { done: true, value: undefined };

/**
 * The body of a streaming response: a chunk for each message, and a last one. An error after the first message is sent in the framing's
 * format and then thrown, so that the server aborts the response. Requests a message only when the previous chunk has been consumed.
 *
 * Not a generator, because `return` must reach the implementation while `next` is pending, and because idle streams should take little
 * memory.
 */
export class MessageFrames implements AsyncIterableIterator<Chunk, undefined> {
  readonly #messages: CancellableIterator<Message>;
  readonly #options: MessageFramesOptions;
  #isStarted = false;
  #isEnded = false;
  /** A message was requested, and has not arrived. */
  #isReading = false;
  #first: Message | undefined;
  /** The frames of the next reads: one that was not awaited, and the last one of the stream. */
  #ready: Frame | undefined;
  #last: Frame | undefined;
  /** The error of a stream that has failed, to be thrown once its last chunk is read. */
  #failure: { readonly error: unknown } | undefined;
  /** The pending read of a frame. */
  #pending: PromiseWithResolvers<Frame> | undefined;
  #heartbeat: ReturnType<typeof setTimeout> | undefined;
  #lastFrameMs = 0;

  constructor(messages: CancellableIterator<Message>, options: MessageFramesOptions) {
    this.#messages = messages;
    this.#options = options;
  }

  /** Waits for the first message, and returns it; undefined if there is none. Rejects with an error that occurs before it. */
  async start(): Promise<Message | undefined> {
    const frame = await this.next();
    this.#isStarted = true;
    this.#ready = frame;
    return this.#first;
  }

  next(): Promise<Frame> {
    const ready = this.#ready;
    if (ready !== undefined) {
      this.#ready = this.#last;
      this.#last = undefined;
      return Promise.resolve(ready);
    }
    if (this.#isEnded) {
      return this.#failure === undefined ? Promise.resolve(done) : Promise.reject(this.#failure.error);
    }
    this.#pending = Promise.withResolvers();
    const { promise } = this.#pending;
    if (!this.#isReading) {
      this.#isReading = true;
      this.#messages.next().then(
        (result) => this.#onMessage(result),
        (error: unknown) => this.#fail(error),
      );
    }
    if (this.#isStarted) {
      this.#keepAlive();
    }
    return promise;
  }

  /** Ends the stream with an error: the server closes. */
  close(error: unknown): void {
    this.#messages.cancel();
    this.#fail(error);
  }

  return(): Promise<Frame> {
    this.#messages.cancel();
    this.#ready = undefined;
    this.#last = undefined;
    this.#failure = undefined;
    if (!this.#isEnded) {
      this.#end();
      this.#deliver(done);
    }
    return Promise.resolve(done);
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  #onMessage(result: IteratorResult<Message>): void {
    this.#isReading = false;
    if (this.#isEnded) {
      return;
    }
    if (result.done === true) {
      this.#end();
      const { end } = this.#options;
      this.#deliver(end === "" ? done : { done: false, value: end });
      return;
    }
    let value: Chunk;
    try {
      value = this.#options.encode(result.value, this.#first === undefined);
    } catch (error) {
      // Like an error of the implementation.
      this.close(error);
      return;
    }
    this.#first ??= result.value;
    this.#deliver({ done: false, value });
  }

  #fail(error: unknown): void {
    if (this.#isEnded) {
      return;
    }
    this.#failure = { error };
    if (!this.#isStarted) {
      this.#isEnded = true;
      this.#pending?.reject(error);
      return;
    }
    const { framing, formatError } = this.#options;
    // Before the end of the call, since its signal then has the error as its reason.
    const json = formatError(error, framing.wrapsErrors);
    this.#end(error);
    this.#deliver({ done: false, value: framing.error(json) });
  }

  #end(error?: unknown): void {
    this.#isEnded = true;
    clearTimeout(this.#heartbeat);
    this.#options.onEnd(error);
  }

  /** Hands a frame to the pending read, or to a later one. */
  #deliver(frame: Frame): void {
    this.#lastFrameMs = performance.now();
    if (this.#pending !== undefined) {
      this.#pending.resolve(frame);
      this.#pending = undefined;
    } else if (this.#ready === undefined) {
      this.#ready = frame;
    } else {
      this.#last = frame;
    }
  }

  /** Sets a timer for the next heartbeat, unless there is one: it is not set again for each message. */
  #keepAlive(): void {
    const { framing, heartbeatMs } = this.#options;
    const { heartbeat } = framing;
    if (heartbeat === undefined || heartbeatMs === 0 || this.#heartbeat !== undefined) {
      return;
    }
    const restMs = Math.max(0, this.#lastFrameMs + heartbeatMs - performance.now());
    this.#heartbeat = setTimeout(() => {
      this.#heartbeat = undefined;
      // A client that has not consumed the last frame needs none.
      if (this.#pending !== undefined) {
        if (performance.now() - this.#lastFrameMs >= heartbeatMs) {
          this.#deliver({ done: false, value: heartbeat });
        } else {
          this.#keepAlive();
        }
      }
    }, Math.ceil(restMs));
  }
}
