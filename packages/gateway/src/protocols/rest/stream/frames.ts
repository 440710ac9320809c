import type { Framing } from "./framing.ts";
import type { CancellableIterator } from "../../../call/cancellable-iterator.ts";

export type FrameMessagesOptions = {
  readonly framing: Framing;
  /** The first message, as JSON. */
  readonly first: string;
  /** The following messages, as JSON. */
  readonly rest: CancellableIterator<string>;
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
  formatError,
  heartbeatMs,
  finish,
}: FrameMessagesOptions): AsyncIterable<string> {
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
  const iterator: AsyncIterator<string> = {
    async next() {
      if (failure !== undefined) {
        throw failure.error;
      }
      if (state === "first") {
        state = "open";
        return { done: false, value: framing.message(first, true) };
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
          return { done: false, value: framing.message(result.value, false) };
        }
      } catch (error) {
        failure = { error };
        close(error);
        return { done: false, value: framing.error(formatError(error, framing.wrapsErrors)) };
      }
      close();
      const end = framing.end(false);
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
  source: CancellableIterator<string>,
  ms: number,
): () => Promise<IteratorResult<string> | undefined> {
  let pending: Promise<void> | undefined;
  let settled: (() => IteratorResult<string>) | undefined;
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
    const result = settled as (() => IteratorResult<string>) | undefined;
    if (result !== undefined) {
      pending = undefined;
      settled = undefined;
    }
    return result?.();
  };
}
