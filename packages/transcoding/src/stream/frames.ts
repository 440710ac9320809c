import type { Framing } from "./framing.ts";
import type { CancellableIterator } from "./cancellable-iterator.ts";

export type Frames = {
  readonly framing: Framing;
  /** As JSON, like all that follow. */
  readonly first: string;
  readonly rest: CancellableIterator<string>;
  /** The JSON of an error that comes behind the first message. */
  readonly formatError: (error: unknown) => string;
  /** 0: no heartbeats. */
  readonly heartbeatMs: number;
  /** Called once, however the stream ends; with the error of one that fails. */
  readonly finish: (error?: unknown) => void;
};

/**
 * The body of a stream whose first message is there. A failure is sent as the framing's error, and then
 * thrown, so that the response breaks off. Nothing is asked of `rest` before the last piece was taken: who
 * sends slowly slows the implementation. `return` reaches `rest` at once, even while a message is awaited.
 */
export function frameMessages({
  framing,
  first,
  rest,
  formatError,
  heartbeatMs,
  finish,
}: Frames): AsyncIterable<string> {
  const { heartbeat } = framing;
  const read = heartbeat === undefined || heartbeatMs === 0 ? () => rest.next() : patiently(rest, heartbeatMs);
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
        return { done: false, value: framing.error(formatError(error)) };
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

/** Reads on, or gives undefined where nothing came for so long; what was asked for is asked for once. */
function patiently(source: CancellableIterator<string>, ms: number): () => Promise<IteratorResult<string> | undefined> {
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
