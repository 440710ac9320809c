import { createHook } from "node:async_hooks";
import { once } from "node:events";
import { Worker } from "node:worker_threads";
import type { Instant } from "../fence.ts";
import { watchFd } from "../messages.ts";

const watchParent = `
const socket = new (require("node:net").Socket)({ fd: ${watchFd} });
const end = () => process.kill(0, "SIGKILL");
socket.on("error", end).on("end", end).resume();
`;

/** Unix time is compared several times a second, because that clock can be set. */
const watchDeadline = `
const { parentPort, workerData: deadline } = require("node:worker_threads");
let timer;
function check() {
  const leftMs = Math.min(
    Number(Atomics.load(deadline, 0)) - Number(process.hrtime.bigint()) / 1e6,
    Number(Atomics.load(deadline, 1)) - Date.now(),
  );
  if (leftMs <= 0) end();
  clearTimeout(timer);
  timer = setTimeout(check, Math.min(leftMs, 250));
}
let rest = "";
socket.setEncoding("latin1").on("data", (text) => {
  const lines = (rest + text).split("\\n");
  rest = lines.pop();
  const last = lines.pop();
  if (last === undefined) return;
  last.split(" ").forEach((ms, at) => Atomics.store(deadline, at, BigInt(ms)));
  check();
});
// The event loop reads the deadlines that arrived while this process started between the first and the second one.
setImmediate(() =>
  setImmediate(() => {
    check();
    parentPort.postMessage("watching");
  }),
);
`;

/**
 * Ends this process and its process group, which contains what its flows have spawned, when the parent exits.
 *
 * Neither a `disconnect` event nor a signal handler runs while a flow blocks the event loop. Therefore a separate thread
 * reads a pipe that only the parent keeps open.
 */
export function startParentWatchdog(): void {
  startThread(watchParent);
}

/**
 * Starts the parent watchdog, which also kills the process group at `deadline`. The parent writes later ones to the pipe, and the thread copies them into `deadline`.
 * Resolves when those that it has written so far are there.
 */
export async function startDeadlineWatchdog(deadline: SharedDeadline): Promise<void> {
  await once(startThread(watchParent + watchDeadline, deadline), "message");
}

function startThread(program: string, workerData?: SharedDeadline): Worker {
  const worker = new Worker(program, {
    eval: true,
    env: {},
    workerData,
    resourceLimits: { maxOldGenerationSizeMb: 16 },
  });
  worker.unref();
  return worker;
}

/** A deadline in memory that threads share: in whole milliseconds, the monotonic clock first, then Unix time. */
export type SharedDeadline = BigInt64Array<SharedArrayBuffer>;

export function shareDeadline({ monotonicMs, unixMs }: Instant): SharedDeadline {
  const shared = new BigInt64Array(new SharedArrayBuffer(2 * BigInt64Array.BYTES_PER_ELEMENT));
  shared.set([BigInt(Math.floor(monotonicMs)), BigInt(Math.floor(unixMs))]);
  return shared;
}

/**
 * Kills this process before any callback that the event loop would run after the deadline. The watchdog's thread kills it at
 * the deadline, but after this process was suspended, timers and sockets of flows could be ahead of that thread.
 *
 * Promises are not tracked, which would be expensive: their callbacks follow others of the event loop.
 */
export function startFence(shared: SharedDeadline): void {
  // Flows could replace the properties.
  const readHrtime = process.hrtime.bigint.bind(process.hrtime);
  const readMs = performance.now.bind(performance);
  const readUnixMs = Date.now.bind(Date);
  let untilMs = 0;
  let untilUnixMs = 0;

  const check = (): void => {
    if (readMs() < untilMs && readUnixMs() < untilUnixMs) {
      return;
    }
    // `performance.now` is faster, but its origin is the start of this process. Read first, so that a suspension between
    // both clocks makes the deadline earlier.
    const nowMs = readMs();
    const leftMs = Number(Atomics.load(shared, 0)) - Number(readHrtime()) / 1e6;
    untilMs = nowMs + leftMs;
    untilUnixMs = Number(Atomics.load(shared, 1));
    if (leftMs <= 0 || readUnixMs() >= untilUnixMs) {
      process.kill(0, "SIGKILL");
    }
  };

  createHook({ before: check, trackPromises: false }).enable();
  check();
}
