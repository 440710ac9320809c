/** Limits how many tasks run at the same time. Sources take turns, and the tasks of a source run in order of arrival. */
export interface FairQueue {
  /**
   * Runs the task in its turn. Rejects with the error of `createFullError` if the queue is full, and with the reason of the signal if
   * that is aborted before the task is started.
   */
  run<Result>(task: () => Promise<Result>, waiter?: Waiter): Promise<Result>;
}

type Waiter = {
  /** On whose behalf the task is run. Defaults to the same source for all. */
  readonly source?: string;
  readonly signal?: AbortSignal;
};

export type FairQueueOptions = {
  readonly concurrency: number;
  /** How many tasks of a source run at the same time. Defaults to `concurrency`. */
  readonly concurrencyPerSource?: number;
  readonly maxQueued: number;
  /** Defaults to `maxQueued`. */
  readonly maxQueuedPerSource?: number;
  readonly createFullError: () => Error;
};

type Source = { running: number; readonly waiting: Set<() => void> };

export function createFairQueue({
  concurrency,
  concurrencyPerSource = concurrency,
  maxQueued,
  maxQueuedPerSource = maxQueued,
  createFullError,
}: FairQueueOptions): FairQueue {
  /** Those with tasks, in their turn. */
  const sources = new Map<string, Source>();
  let running = 0;
  let queued = 0;

  const isBusy = (source: Source): boolean => running >= concurrency || source.running >= concurrencyPerSource;

  /** Starts the next tasks. */
  function advance(): void {
    for (;;) {
      const next = sources.entries().find(([, source]) => source.waiting.size > 0 && !isBusy(source));
      if (next === undefined) {
        return;
      }
      const [name, source] = next;
      const [start] = source.waiting as Set<() => void>;
      source.running += 1;
      running += 1;
      // Its next turn comes after all others.
      sources.delete(name);
      sources.set(name, source);
      start?.();
    }
  }

  function wait(source: Source, signal: AbortSignal | undefined): Promise<void> {
    return new Promise((resolve, reject) => {
      const leave = (): void => {
        source.waiting.delete(start);
        queued -= 1;
        signal?.removeEventListener("abort", abort);
      };
      const start = (): void => {
        leave();
        resolve();
      };
      const abort = (): void => {
        leave();
        reject(signal?.reason);
      };
      source.waiting.add(start);
      queued += 1;
      signal?.addEventListener("abort", abort);
      advance();
    });
  }

  function forget(name: string, source: Source): void {
    if (source.running === 0 && source.waiting.size === 0) {
      sources.delete(name);
    }
  }

  return {
    async run(task, { source: name = "", signal } = {}) {
      signal?.throwIfAborted();
      const source = sources.get(name) ?? { running: 0, waiting: new Set() };
      if (isBusy(source) && (queued >= maxQueued || source.waiting.size >= maxQueuedPerSource)) {
        throw createFullError();
      }
      sources.set(name, source);
      try {
        await wait(source, signal);
      } catch (error) {
        forget(name, source);
        throw error;
      }
      try {
        return await task();
      } finally {
        source.running -= 1;
        running -= 1;
        forget(name, source);
        // The slots pass directly to the next tasks, so that no new task can take them first.
        advance();
      }
    },
  };
}
