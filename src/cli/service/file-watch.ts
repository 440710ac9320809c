import { hash } from "node:crypto";
import { readFile, stat } from "node:fs/promises";
import { setInterval } from "node:timers/promises";

/** Detects changes of a file since the watch was created, including those before `start`. */
export interface FileWatch {
  /**
   * Calls `onChange` for each change, not concurrently. It must not reject. A file that becomes unreadable has changed too.
   * Disposing ends the watch.
   */
  start(onChange: () => Promise<void>): Disposable;
}

/**
 * Polls the content of a file, because file system events miss some changes: a replaced symbolic link in the path, as in
 * Kubernetes, and network file systems. A change is reported after two equal polls, since a file may be written in parts.
 */
export async function createFileWatch(path: string, pollIntervalMs = 1_000): Promise<FileWatch> {
  let reported = await fingerprintOf(path);
  return {
    start(onChange) {
      const polling = new AbortController();
      async function poll(): Promise<void> {
        let previous = reported;
        for await (const _ of setInterval(pollIntervalMs, undefined, { signal: polling.signal, ref: false })) {
          const found = await fingerprintOf(path);
          if (found === previous && found !== reported) {
            reported = found;
            await onChange();
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

/** A hash, since the file may contain secrets, or the code of the error if it can't be read. */
async function fingerprintOf(path: string): Promise<string> {
  try {
    // A pipe can be read only once.
    return (await stat(path)).isFile() ? hash("sha256", await readFile(path)) : "not a file";
  } catch (error) {
    return (error as NodeJS.ErrnoException).code ?? "error";
  }
}
