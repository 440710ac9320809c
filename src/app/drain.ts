import { setTimeout as delay } from "node:timers/promises";
import type { Logger } from "pino";
import type { Listeners } from "./listeners.ts";
import type { Runtimes } from "./runtimes.ts";

type DrainOptions = Pick<Runtimes, "runtime" | "allRuntimes" | "probations"> &
  Pick<Listeners, "server" | "tools"> & {
    readonly log: Logger;
    /** The time for which calls are still accepted while health reports not ready. */
    readonly delayMs: number;
    /** The time that follows for calls in flight and for the flows to stop. */
    readonly graceMs: number;
  };

/** Shuts the service down without losing calls. What has not finished after `delayMs` plus `graceMs` is aborted. */
export async function drain({
  server,
  tools,
  runtime,
  allRuntimes,
  probations,
  log,
  delayMs,
  graceMs,
}: DrainOptions): Promise<void> {
  // Health watches get NOT_SERVING, /readyz responds 503, and HTTP/1 responses close their connections.
  server.drain();
  if (delayMs > 0) {
    log.info(`draining: no longer ready; calls are still accepted for ${delayMs} ms`);
    await delay(delayMs);
  }

  // Committed deployments stop waiting for the runtime: the next start of the service applies them.
  runtime.release();
  allRuntimes.release();
  probations[Symbol.dispose]();
  // Stops listening, sends both GOAWAY frames, ends streams with UNAVAILABLE, and waits for calls in flight.
  log.info(`draining: no new connections; calls in flight may take ${graceMs} ms`);
  const closed = Promise.all([server[Symbol.asyncDispose](), tools?.[Symbol.asyncDispose]()]).then(() => undefined);
  const killTimer = setTimeout(() => runtime.kill(), graceMs);
  // The flows need part of the grace period, so they are stopped even if calls are still in flight.
  const late = delay(graceMs / 2, "calls are still in flight", { ref: false });
  log.info(`draining: ${(await Promise.race([closed, late])) ?? "calls have finished"}; stopping the flows`);
  await Promise.all([closed, runtime[Symbol.asyncDispose]()]);
  clearTimeout(killTimer);
  log.info("draining: the flows have stopped");
}
