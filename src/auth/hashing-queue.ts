export interface HashingQueue {
  /** Runs the task when its turn comes. Rejects with what `refuse` gives where too many wait. */
  run<Result>(task: () => Promise<Result>): Promise<Result>;
}

/** Lets `atOnce` tasks run at once, and `waiting` more wait in the order they came. */
export function createHashingQueue(options: { atOnce: number; waiting: number; refuse: () => Error }): HashingQueue {
  const turns: (() => void)[] = [];
  let running = 0;

  async function turn(): Promise<void> {
    if (running < options.atOnce) {
      running += 1;
      return;
    }
    if (turns.length >= options.waiting) {
      throw options.refuse();
    }
    const { promise, resolve } = Promise.withResolvers<void>();
    turns.push(resolve);
    await promise;
  }

  return {
    async run(task) {
      await turn();
      try {
        return await task();
      } finally {
        const next = turns.shift();
        // The turn is handed on, so that no newcomer gets in between.
        if (next === undefined) {
          running -= 1;
        } else {
          next();
        }
      }
    },
  };
}
