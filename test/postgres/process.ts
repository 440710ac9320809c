import { spawn } from "node:child_process";
import { once } from "node:events";
import type { Readable, Writable } from "node:stream";
import { environment, type Installation } from "./installation.ts";

/** A running server. */
export type Postgres = {
  log(): string;
  /** Resolves once it has logged this; throws if it ends before. */
  untilLogged(pattern: RegExp): Promise<void>;
  /** Sends a signal to the postmaster. */
  signal(signal: NodeJS.Signals): void;
  /** Resolves when the postmaster and all of its processes have ended. */
  readonly ended: Promise<void>;
};

/**
 * Becomes the server, and leaves a watchdog that stops it when this process ends in any way: the pipe of descriptor 3 is then
 * closed. A line in the pipe ends the watchdog.
 */
const watched = `(trap "" HUP TERM; read -r line || kill -QUIT $$) <&3 2>/dev/null & exec "$@" 3<&-`;

export function startPostgres({ folder, user, postgres }: Installation, args: readonly string[]): Postgres {
  const child = spawn("sh", ["-c", watched, "sh", postgres, ...args], {
    ...user,
    cwd: folder,
    env: environment,
    stdio: ["ignore", "ignore", "pipe", "pipe"],
  });
  const [, , output, watchdog] = child.stdio as unknown as [null, null, Readable, Writable];
  child.once("exit", () => watchdog.end("\n"));
  // The watchdog may have been killed.
  watchdog.on("error", () => {});
  const log = collect(output);
  return {
    log: () => log.text(),
    untilLogged: (pattern) => log.until(pattern),
    signal: (signal) => void child.kill(signal),
    // All processes of the server log to the same pipe.
    ended: Promise.all([once(child, "exit"), once(output, "end")]).then(() => {}),
  };
}

function collect(output: Readable): { text(): string; until(pattern: RegExp): Promise<void> } {
  let text = "";
  const grown = new Set<() => void>();
  output.setEncoding("utf8").on("data", (chunk: string) => {
    text += chunk;
    for (const look of grown) {
      look();
    }
  });
  return {
    text: () => text,
    until: (pattern) =>
      new Promise((resolve, reject) => {
        const end = (): void => reject(new Error(`PostgreSQL ended after it logged:\n${text}`));
        const look = (): void => {
          if (pattern.test(text)) {
            grown.delete(look);
            output.off("end", end);
            resolve();
          }
        };
        grown.add(look);
        output.once("end", end);
        look();
      }),
  };
}
