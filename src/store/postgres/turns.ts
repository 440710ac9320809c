import { unavailable } from "./errors.ts";

/** Limits how many operations run at the same time. Others wait for their turn. */
export interface Turns {
  /** Resolves when the caller may begin. Disposing ends its turn. Rejects if it would have to wait for too long. */
  take(): Promise<Disposable>;
}

export function createTurns(max: number, waitMs: number): Turns {
  let running = 0;
  const waiting = new Set<() => void>();
  const turn: Disposable = {
    [Symbol.dispose]() {
      const [next] = waiting;
      if (next === undefined) {
        running -= 1;
      } else {
        waiting.delete(next);
        next();
      }
    },
  };
  return {
    async take() {
      if (running < max) {
        running += 1;
        return turn;
      }
      const { promise, resolve, reject } = Promise.withResolvers<void>();
      waiting.add(resolve);
      const timer = setTimeout(() => {
        waiting.delete(resolve);
        reject(unavailable("the database is busy: try again"));
      }, waitMs);
      await promise.finally(() => clearTimeout(timer));
      return turn;
    },
  };
}
