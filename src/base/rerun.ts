/**
 * Returns a function that runs a task, but not twice at the same time: all calls during a run share one further run, which begins after
 * it, also if it fails.
 */
export function createRerun(task: () => Promise<void>): () => Promise<void> {
  let running: Promise<void> | undefined;
  let next: Promise<void> | undefined;
  return function run(): Promise<void> {
    if (running === undefined) {
      running = task().finally(() => (running = undefined));
      return running;
    }
    next ??= running
      .catch(() => {})
      .then(() => {
        next = undefined;
        return run();
      });
    return next;
  };
}
