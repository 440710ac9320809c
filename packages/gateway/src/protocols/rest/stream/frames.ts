import type { Framing } from "./framing.ts";
import type { CancellableIterator } from "../../../call/cancellable-iterator.ts";

/** The encoded message with its delimiters; bytes if it is shared by several responses. */
export type Chunk = string | Uint8Array;

export type FrameMessagesOptions = {
  readonly framing: Framing;
  /** The chunk of the first message. */
  readonly first: Chunk;
  /** The last chunk of a successful stream; may be empty. */
  readonly end: string;
  /** The chunks of the following messages. */
  readonly rest: CancellableIterator<Chunk>;
  /** Formats an error after the first message as JSON. `isWrapped`: the framing writes it below a key `error`. */
  readonly formatError: (error: unknown, isWrapped: boolean) => string;
  /** The interval of heartbeats while no message is sent, in ms; 0 disables them. */
  readonly heartbeatMs: number;
  /** Called once when the stream ends; with the error if it fails. */
  readonly finish: (error?: unknown) => void;
};

/**
 * The body of a stream, after its first message is available. An error is sent in the framing's format and then
 * thrown, so that the server aborts the response. The next message is read when the previous chunk was consumed, which
 * propagates backpressure to the implementation. `return` cancels `rest` immediately, even while a message is awaited.
 */
export function frameMessages({
  framing,
  first,
  rest,
  end,
  formatError,
  heartbeatMs,
  finish,
}: FrameMessagesOptions): AsyncIterable<Chunk> {
  const { heartbeat } = framing;
  const read =
    heartbeat === undefined || heartbeatMs === 0 ? () => rest.next() : createReaderWithTimeout(rest, heartbeatMs);
  let state: "first" | "open" | "closed" = "first";
  let failure: { readonly error: unknown } | undefined;
  const close = (error?: unknown): void => {
    if (state !== "closed") {
      state = "closed";
      finish(error);
    }
  };
  const iterator: AsyncIterator<Chunk> = {
    async next() {
      if (failure !== undefined) {
        throw failure.error;
      }
      if (state === "first") {
        state = "open";
        return { done: false, value: first };
      }
      if (state === "closed") {
        return { done: true, value: undefined };
      }
      try {
        const result = await read();
        if (result === undefined) {
          return { done: false, value: heartbeat ?? "" };
        }
        if (result.done !== true) {
          return result;
        }
      } catch (error) {
        failure = { error };
        // Before the end of the call, since its signal then has the error as its reason.
        const json = formatError(error, framing.wrapsErrors);
        close(error);
        return { done: false, value: framing.error(json) };
      }
      close();
      return end === "" ? { done: true, value: undefined } : { done: false, value: end };
    },
    async return() {
      close();
      rest.cancel();
      return { done: true, value: undefined };
    },
  };
  return { [Symbol.asyncIterator]: () => iterator };
}

/** Reads the next result, or resolves with undefined after `ms`; the following call then waits for the same result. */
function createReaderWithTimeout(
  source: CancellableIterator<Chunk>,
  ms: number,
): () => Promise<IteratorResult<Chunk> | undefined> {
  let pending: Promise<void> | undefined;
  let settled: (() => IteratorResult<Chunk>) | undefined;
  let wake = (): void => {};
  return async () => {
    pending ??= source.next().then(
      (result) => {
        settled = () => result;
        wake();
      },
      (error: unknown) => {
        settled = () => {
          throw error;
        };
        wake();
      },
    );
    if (settled === undefined) {
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, ms);
        wake = () => {
          clearTimeout(timer);
          resolve();
        };
      });
    }
    const result = settled as (() => IteratorResult<Chunk>) | undefined;
    if (result !== undefined) {
      pending = undefined;
      settled = undefined;
    }
    return result?.();
  };
}
