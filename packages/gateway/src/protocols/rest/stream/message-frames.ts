import type { Message } from "@bufbuild/protobuf";
import type { CancellableIterator } from "../../../call/cancellable-iterator.ts";
import { type Failure, StreamFrames } from "../../../call/stream-frames.ts";
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
  /** Called once when the stream ends; with the error if it fails, unless it fails before the first message. */
  readonly onEnd: (error?: unknown) => void;
};

/** A chunk for each message. An error after the first message is sent in the framing's format, and then aborts the response. */
export class MessageFrames extends StreamFrames<Chunk> {
  readonly #options: MessageFramesOptions;
  #first: Message | undefined;
  #heartbeat: ReturnType<typeof setTimeout> | undefined;
  #lastFrameMs = 0;

  constructor(messages: CancellableIterator<Message>, options: MessageFramesOptions) {
    super(messages);
    this.#options = options;
  }

  /** Undefined: there is none. */
  get first(): Message | undefined {
    return this.#first;
  }

  protected encode(message: Message): Chunk {
    this.#lastFrameMs = performance.now();
    const chunk = this.#options.encode(message, this.#first === undefined);
    this.#first ??= message;
    return chunk;
  }

  protected formatEnd(failure?: Failure): ReturnType<StreamFrames<Chunk>["formatEnd"]> {
    const { framing, end, formatError } = this.#options;
    if (failure === undefined) {
      return { frame: end || undefined };
    }
    return this.#first === undefined
      ? { failure }
      : { frame: framing.error(formatError(failure.error, framing.wrapsErrors)) || undefined, failure };
  }

  protected onEnd(failure?: Failure): void {
    clearTimeout(this.#heartbeat);
    if (failure === undefined || this.#first !== undefined) {
      this.#options.onEnd(failure?.error);
    }
  }

  /** Sets a timer for the next heartbeat. It is not set again for each message. */
  protected override onAwait(): void {
    const {
      framing: { heartbeat },
      heartbeatMs,
    } = this.#options;
    if (this.#first === undefined || this.#heartbeat !== undefined || heartbeat === undefined || heartbeatMs === 0) {
      return;
    }
    const restMs = Math.max(0, this.#lastFrameMs + heartbeatMs - performance.now());
    this.#heartbeat = setTimeout(() => {
      this.#heartbeat = undefined;
      // A client that has not consumed the last frame needs none.
      if (this.isAwaited) {
        if (performance.now() - this.#lastFrameMs >= heartbeatMs) {
          this.#lastFrameMs = performance.now();
          this.deliver(heartbeat);
        } else {
          this.onAwait();
        }
      }
    }, Math.ceil(restMs));
  }
}
