// Preloaded (--import) into each server under test: it tells how long the event loop of its process stalls.
import { monitorEventLoopDelay } from "node:perf_hooks";
import { isMainThread } from "node:worker_threads";

/** `start` forgets what was before. */
export type ToProbe = "start" | "stop";

/** How long the loop took to come round, in ms; a loop that has nothing to do takes 1. */
export type Stalls = { readonly maxMs: number; readonly p99Ms: number };

// Threads of a server are preloaded too.
if (isMainThread && process.channel !== undefined) {
  // As soon as the benchmark is gone: no server may outlive it.
  process.on("disconnect", () => process.kill(process.pid, "SIGTERM"));
  let histogram: ReturnType<typeof monitorEventLoopDelay> | undefined;
  process.on("message", (message: ToProbe) => {
    switch (message) {
      case "start":
        histogram = monitorEventLoopDelay({ resolution: 1 });
        histogram.enable();
        // Not before the histogram has taken its first measure, from which it counts.
        setTimeout(() => process.send?.("started"), 20);
        return;
      case "stop":
        histogram?.disable();
        process.send?.({ maxMs: toMs(histogram?.max), p99Ms: toMs(histogram?.percentile(99)) } satisfies Stalls);
    }
  });
  process.channel.unref();
}

function toMs(nanoseconds = 0): number {
  return nanoseconds / 1e6;
}
