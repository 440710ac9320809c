import { setInterval } from "node:timers/promises";

/** Detects changes of files since the watch was created, including those before `start`. */
export interface PolledWatch {
  /**
   * Calls `onChange` with the fingerprint of each change, not concurrently. It must not reject. A file that becomes unreadable has
   * changed too. Disposing ends the watch.
   */
  start(onChange: (fingerprint: string) => Promise<void>): Disposable;
}

/**
 * Polls the content of files, because file system events miss some changes: a replaced symbolic link in the path, as in
 * Kubernetes, and network file systems. A change is reported after two equal polls, since a file may be written in parts, and several
 * files one after another. `initial` is the fingerprint of the content that is known, `fingerprint` reads the current one.
 */
export function createPolledWatch(
  initial: string,
  fingerprint: () => Promise<string>,
  pollIntervalMs = 1_000,
): PolledWatch {
  let reported = initial;
  return {
    start(onChange) {
      const polling = new AbortController();
      async function poll(): Promise<void> {
        let previous = reported;
        for await (const _ of setInterval(pollIntervalMs, undefined, { signal: polling.signal, ref: false })) {
          const found = await fingerprint();
          if (found === previous && found !== reported) {
            reported = found;
            await onChange(found);
          }
          previous = found;
        }
      }
      void poll().catch((error: unknown) => {
        if (!polling.signal.aborted) {
          throw error;
        }
      });
      return { [Symbol.dispose]: () => polling.abort() };
    },
  };
}
