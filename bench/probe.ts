// Preloaded (--import) into each server on Node. Reports measurements of the process to the benchmark.
import { monitorEventLoopDelay } from "node:perf_hooks";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { isMainThread } from "node:worker_threads";

/** `collect` reports the usage after a garbage collection; `start` and `stop` measure stalls. */
export type ToProbe = "usage" | "collect" | "start" | "stop";

export type Usage = {
  /** User and system time of all threads since the process started. */
  readonly cpuMs: number;
  readonly rssBytes: number;
  /** What is used of V8's heap; of servers on Node only. */
  readonly heapBytes?: number;
};

/** Intervals between iterations of the event loop in ms; 1 for an idle loop. */
export type Stalls = { readonly maxMs: number; readonly p99Ms: number };

// The module is preloaded in worker threads too.
if (isMainThread && process.channel !== undefined) {
  // Stops the server when the benchmark exits.
  process.on("disconnect", () => process.kill(process.pid, "SIGTERM"));
  let histogram: ReturnType<typeof monitorEventLoopDelay> | undefined;
  process.on("message", (message: ToProbe) => {
    switch (message) {
      case "usage":
        process.send?.(readUsage());
        return;
      case "collect":
        collectGarbage();
        process.send?.(readUsage());
        return;
      case "start":
        histogram = monitorEventLoopDelay({ resolution: 1 });
        histogram.enable();
        // The histogram records from its first tick on.
        setTimeout(() => process.send?.("started"), 20);
        return;
      case "stop":
        histogram?.disable();
        process.send?.({ maxMs: toMs(histogram?.max), p99Ms: toMs(histogram?.percentile(99)) } satisfies Stalls);
    }
  });
  process.channel.unref();
}

function readUsage(): Usage {
  const { user, system } = process.cpuUsage();
  const { rss, heapUsed } = process.memoryUsage();
  return { cpuMs: (user + system) / 1000, rssBytes: rss, heapBytes: heapUsed };
}

function collectGarbage(): void {
  setFlagsFromString("--expose-gc");
  (runInNewContext("gc") as () => void)();
}

function toMs(nanoseconds = 0): number {
  return nanoseconds / 1e6;
}
