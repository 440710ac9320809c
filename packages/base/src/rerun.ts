/**
 * Returns a function that runs a task, but not twice at the same time: all calls during a run share one further run, which begins after
 * it, also if it fails.
 */
export function createRerun(task: () => Promise<void>): () => Promise<void> {
  let ended: Promise<void> | undefined;
  let next: Promise<void> | undefined;
  return function run(): Promise<void> {
    if (ended === undefined) {
      const running = task().finally(() => (ended = undefined));
      ended = running.catch(() => {});
      // A promise of its own, so that a failure that no caller handles is reported.
      return running.then(() => {});
    }
    next ??= ended.then(() => {
      next = undefined;
      return run();
    });
    return next;
  };
}
