export interface HashingQueue {
  /** Runs the task when there is capacity. Rejects with the error of `createFullError` if the queue is full. */
  run<Result>(task: () => Promise<Result>): Promise<Result>;
}

/** Runs up to `concurrency` tasks at the same time, and queues up to `maxQueued` more in order of arrival. */
export function createHashingQueue(options: {
  concurrency: number;
  maxQueued: number;
  createFullError: () => Error;
}): HashingQueue {
  const queued: (() => void)[] = [];
  let running = 0;

  async function acquire(): Promise<void> {
    if (running < options.concurrency) {
      running += 1;
      return;
    }
    if (queued.length >= options.maxQueued) {
      throw options.createFullError();
    }
    const { promise, resolve } = Promise.withResolvers<void>();
    queued.push(resolve);
    await promise;
  }

  return {
    async run(task) {
      await acquire();
      try {
        return await task();
      } finally {
        const next = queued.shift();
        // The slot passes directly to the next task, so that no new task can take it first.
        if (next === undefined) {
          running -= 1;
        } else {
          next();
        }
      }
    },
  };
}
