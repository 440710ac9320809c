import type { Message } from "@bufbuild/protobuf";
import type { CancellableIterator } from "../../../call/cancellable-iterator.ts";
import { done, PollableIterator } from "../../../call/pollable-iterator.ts";
import type { Framing } from "./framing.ts";

/** The encoded message with its delimiters; bytes if it is shared by several responses. */
export type Chunk = string | Uint8Array;

export type MessageFramesOptions = {
  readonly framing: Pick<Framing, "error" | "wrapsErrors" | "heartbeat">;
  readonly encode: (message: Message, isFirst: boolean) => Chunk;
  readonly end: string;
  /** Formats an error after the first message as JSON. `isWrapped`: the framing writes it below a key `error`. */
  readonly formatError: (error: unknown, isWrapped: boolean) => string;
  /** The interval of heartbeats while no message is sent, in ms; 0 disables them. */
  readonly heartbeatMs: number;
  /** Called once when the stream ends; with the error if it fails. */
  readonly onEnd: (error?: unknown) => void;
};

type Frame = IteratorResult<Chunk, undefined>;

/**
 * The body of a streaming response: a chunk for each message, and a last one. An error after the first message is sent in the framing's
 * format and then thrown, so that the server aborts the response. Requests a message only when the previous chunk has been consumed.
 */
export class MessageFrames extends PollableIterator<Chunk> {
  readonly #messages: CancellableIterator<Message>;
  readonly #options: MessageFramesOptions;
  #first: Message | undefined;
  #isEnded = false;
  /** The frames before the next message: one that is not read yet, and the last one of the stream. */
  #ready: Frame | undefined;
  #last: Frame | undefined;
  /** The error of a stream that has failed, to be thrown once its last chunk is read. */
  #failure: { readonly error: unknown } | undefined;
  #onReady: (() => void) | undefined;
  #heartbeat: ReturnType<typeof setTimeout> | undefined;
  #lastFrameMs = 0;

  constructor(messages: CancellableIterator<Message>, options: MessageFramesOptions) {
    super();
    this.#messages = messages;
    this.#options = options;
  }

  /** Waits for the first message, and returns it; undefined if there is none. Rejects with an error that occurs before it. */
  async start(): Promise<Message | undefined> {
    const frame = await this.next();
    this.#last = this.#ready;
    this.#ready = frame;
    return this.#first;
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
      result = this.#messages.poll(onReady);
    } catch (error) {
      this.#fail(error);
    }
    // It has failed, or what the implementation has done meanwhile has closed it.
    if (this.#isEnded) {
      return this.poll(onReady);
    }
    const isFirst = this.#first === undefined;
    if (result === undefined) {
      this.#onReady = onReady;
      if (!isFirst && this.#heartbeat === undefined) {
        this.#keepAlive();
      }
      return undefined;
    }
    this.#lastFrameMs = performance.now();
    if (result.done === true) {
      this.#end(this.#options.end);
      return this.poll(onReady);
    }
    let value: Chunk;
    try {
      value = this.#options.encode(result.value, isFirst);
    } catch (error) {
      // Like an error of the implementation.
      this.close(error);
      return this.poll(onReady);
    }
    if (isFirst) {
      this.#first = result.value;
    }
    return { done: false, value };
  }

  close(error: unknown): void {
    this.#fail(error);
    this.#messages.cancel();
    this.#notify();
  }

  override return(): Promise<Frame> {
    this.#ready = undefined;
    if (!this.#isEnded) {
      this.#end();
    }
    this.#messages.cancel();
    this.#notify();
    return Promise.resolve(done);
  }

  #fail(error: unknown): void {
    if (this.#isEnded) {
      return;
    }
    this.#failure = { error };
    if (this.#first === undefined) {
      this.#isEnded = true;
      return;
    }
    const { framing, formatError } = this.#options;
    // Before the end of the call, since its signal then has the error as its reason.
    this.#end(framing.error(formatError(error, framing.wrapsErrors)), error);
  }

  /** What observes the end may poll, so the last chunk, if there is one, comes before. */
  #end(last?: Chunk, error?: unknown): void {
    this.#isEnded = true;
    clearTimeout(this.#heartbeat);
    if (last) {
      this.#deliver(last);
    }
    this.#options.onEnd(error);
  }

  #deliver(value: Chunk): void {
    this.#lastFrameMs = performance.now();
    const frame: Frame = { done: false, value };
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

  /** Sets a timer for the next heartbeat. It is not set again for each message. */
  #keepAlive(): void {
    const {
      framing: { heartbeat },
      heartbeatMs,
    } = this.#options;
    if (heartbeat === undefined || heartbeatMs === 0) {
      return;
    }
    const restMs = Math.max(0, this.#lastFrameMs + heartbeatMs - performance.now());
    this.#heartbeat = setTimeout(() => {
      this.#heartbeat = undefined;
      // A client that has not consumed the last frame needs none.
      if (this.#onReady !== undefined) {
        if (performance.now() - this.#lastFrameMs >= heartbeatMs) {
          this.#deliver(heartbeat);
          this.#notify();
        } else {
          this.#keepAlive();
        }
      }
    }, Math.ceil(restMs));
  }
}
