import { fork } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import type { HolderOptions, HolderReport } from "../../fixtures/server/holder.ts";

const entry = fileURLToPath(new URL("../../fixtures/server/holder.ts", import.meta.url));

export type Holder = AsyncDisposable & {
  readonly pid: number;
  /** Waits for a report that satisfies the condition. */
  until(condition: (report: HolderReport) => boolean): Promise<void>;
};

/** Starts a process that holds connections. */
export function startHolder(options: HolderOptions): Holder {
  // A session of its own, like the flow runtime.
  const child = fork(entry, [JSON.stringify(options)], { detached: true });
  let latest: HolderReport = { connects: 0, open: 0, responses: 0 };
  child.on("message", (report: HolderReport) => {
    latest = report;
  });
  return {
    pid: child.pid ?? 0,
    async until(condition) {
      while (!condition(latest)) {
        await once(child, "message");
      }
    },
    async [Symbol.asyncDispose]() {
      const exited = once(child, "exit");
      child.disconnect();
      await exited;
    },
  };
}
