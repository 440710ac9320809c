import type { Message } from "@bufbuild/protobuf";
import type { CancellableIterator } from "./cancellable-iterator.ts";
import { done, PollableIterator } from "./pollable-iterator.ts";

export type Failure = { readonly error: unknown };

type Result<Frame> = IteratorResult<Frame, undefined>;

/**
 * The body of a streaming response: a frame for each message, and a last one. Requests a message only when the previous frame has
 * been consumed.
 */
export abstract class StreamFrames<Frame> extends PollableIterator<Frame> {
  readonly #messages: CancellableIterator<Message>;
  /** The frames before the next message: one that is not read yet, and the last one of the stream. */
  #ready: Result<Frame> | undefined;
  #last: Result<Frame> | undefined;
  #isEncoding = false;
  #isEnded = false;
  /** Thrown after the last frame, which aborts the response. */
  #failure: Failure | undefined;
  #onReady: (() => void) | undefined;

  constructor(messages: CancellableIterator<Message>) {
    super();
    this.#messages = messages;
  }

  /** Undefined: the frame is passed to `encoded` later. An error ends the stream like an error of the implementation. */
  protected abstract encode(message: Message): Frame | undefined;

  /** Returns the last frame, and the error with which the response is aborted after it. Not called if the client disconnects. */
  protected abstract formatEnd(failure?: Failure): { frame?: Frame | undefined; failure?: Failure | undefined };

  /** Called once when the stream ends, after `formatEnd`, since the signal of the call then has the error as its reason. */
  protected abstract onEnd(failure?: Failure): void;

  /** Called when a frame is awaited. */
  protected onAwait(): void {}

  protected get isAwaited(): boolean {
    return this.#onReady !== undefined;
  }

  /** Waits for the first frame. Rejects with an error after which nothing is sent. */
  async start(): Promise<void> {
    const frame = await this.next();
    this.#last = this.#ready;
    this.#ready = frame;
  }

  poll(onReady: () => void): Result<Frame> | undefined {
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
      result = this.#isEncoding ? undefined : this.#messages.poll(onReady);
    } catch (error) {
      this.#end({ error });
    }
    // It has failed, or the implementation has closed it meanwhile.
    if (this.#isEnded) {
      return this.poll(onReady);
    }
    if (result?.done === true) {
      this.#end();
      return this.poll(onReady);
    }
    if (result !== undefined) {
      try {
        const value = this.encode(result.value);
        if (value !== undefined) {
          return { done: false, value };
        }
        this.#isEncoding = true;
      } catch (error) {
        this.close(error);
        return this.poll(onReady);
      }
    }
    this.#onReady = onReady;
    this.onAwait();
    return undefined;
  }

  close(error: unknown): void {
    this.#end({ error });
    this.#messages.cancel();
    this.#notify();
  }

  override return(): Promise<Result<Frame>> {
    this.#ready = undefined;
    if (!this.#isEnded) {
      this.#isEnded = true;
      this.onEnd();
    }
    this.#messages.cancel();
    this.#notify();
    return Promise.resolve(done);
  }

  /** Passes on the frame for which `encode` has returned undefined. */
  protected encoded(frame: Frame): void {
    this.#isEncoding = false;
    if (!this.#isEnded) {
      this.deliver(frame);
    }
  }

  /** Adds a frame before the next message's. */
  protected deliver(frame: Frame): void {
    this.#add(frame);
    this.#notify();
  }

  #end(failure?: Failure): void {
    if (this.#isEnded) {
      return;
    }
    this.#isEnded = true;
    const end = this.formatEnd(failure);
    this.#failure = end.failure;
    // What observes the end may poll, so the last frame comes before.
    if (end.frame !== undefined) {
      this.#add(end.frame);
    }
    this.onEnd(failure);
  }

  #add(value: Frame): void {
    const frame: Result<Frame> = { done: false, value };
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
