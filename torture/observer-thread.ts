// The thread of `observe`, whose event loop does nothing else: times include each wait of the loop that measures them.
import { setTimeout as delay } from "node:timers/promises";
import { parentPort, workerData } from "node:worker_threads";
import { quantile } from "../bench/statistics.ts";
import { send } from "../test/e2e/rest.ts";
import type { Access, Observation, Pause } from "./operator.ts";

const { name, url, sending, pauseMs } = workerData as Access & Pause;
const timesMs: number[] = [];
const failures = new Map<string, number>();
const ending = new AbortController();
parentPort?.once("message", () => ending.abort());

await ask("/healthz");
parentPort?.postMessage("started");
while (!ending.signal.aborted) {
  await ask("/healthz");
  await ask("/settings");
  await delay(pauseMs);
}
// The first call includes the time in which the thread loads and compiles its code.
const p99Ms = quantile(timesMs.slice(1), 0.99);
parentPort?.postMessage({ calls: timesMs.length, p99Ms, failures } satisfies Observation);

async function ask(path: string): Promise<void> {
  const beganMs = performance.now();
  const problem = await send(url, "GET", path, { ...sending, signal: AbortSignal.timeout(10_000) }).then(
    ({ status }) => (status === 200 ? undefined : `GET ${path} over ${name}: ${status}`),
    (error: NodeJS.ErrnoException) => `GET ${path} over ${name}: ${error.code ?? error.name}`,
  );
  timesMs.push(performance.now() - beganMs);
  if (problem !== undefined) {
    failures.set(problem, (failures.get(problem) ?? 0) + 1);
  }
}
