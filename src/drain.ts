import { setTimeout as delay } from "node:timers/promises";
import type { Logger } from "pino";
import type { Runtime } from "./runtime/runtime.ts";
import type { Server } from "./server/app.ts";

type Draining = {
  readonly server: Server;
  readonly runtime: Runtime;
  readonly log: Logger;
  /** How long calls are taken as before, while health says that the service leaves. */
  readonly delayMs: number;
  /** How long calls in flight may take after that, and the flows to stop. */
  readonly graceMs: number;
};

/** Ends the service so that clients lose no call: within the delay and the grace, for what is left then is cut off. */
export async function drain({ server, runtime, log, delayMs, graceMs }: Draining): Promise<void> {
  // Watches are told NOT_SERVING, /readyz is 503, and HTTP/1 answers end their connections.
  server.drain();
  if (delayMs > 0) {
    log.info(`draining: not ready any more; calls are still taken for ${delayMs} ms`);
    await delay(delayMs);
  }

  // Deployments that are committed stand: what becomes of them is for the next start, not for this one.
  runtime.release();
  // Listens no more, sends both GOAWAYs, ends streams with UNAVAILABLE, finishes the calls.
  log.info(`draining: no new connections; calls in flight may take ${graceMs} ms`);
  const closed = server[Symbol.asyncDispose]();
  const cut = setTimeout(() => runtime.kill(), graceMs);
  // Flows need some of the grace as well.
  const late = delay(graceMs / 2, "calls take long", { ref: false });
  log.info(`draining: ${(await Promise.race([closed, late])) ?? "calls have finished"}; stopping the flows`);
  await Promise.all([closed, runtime[Symbol.asyncDispose]()]);
  clearTimeout(cut);
  log.info("draining: the flows have stopped");
}
