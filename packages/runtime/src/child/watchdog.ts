import { createHook } from "node:async_hooks";
import { once } from "node:events";
import { Worker } from "node:worker_threads";
import type { Instant } from "../fence.ts";
import { watchFd } from "../messages.ts";
import { type SharedActivity, headerBytes, maxNodes, nodeBytes } from "./activity.ts";
import { functionPrefixes } from "./error-text.ts";

const watchParent = `
const { parentPort, workerData: { activity, deadline } } = require("node:worker_threads");
const socket = new (require("node:net").Socket)({ fd: ${watchFd} });
const end = () => process.kill(0, "SIGKILL");
socket.on("error", end).on("end", end).resume();
`;

/**
 * Writes to the pipe which node was active last, and which function node blocks the event loop, by the stack of the main thread. The session
 * must be connected before flows run: after the permission was dropped, Node.js does not allow it.
 */
const watchActivity = `
const prefixes = ${JSON.stringify(functionPrefixes)};
const header = new Int32Array(activity, 0, 3);
const bytes = Buffer.from(activity);
function readNode(number) {
  const start = ${headerBytes} + ((number - 1) % ${maxNodes}) * ${nodeBytes};
  const length = bytes[start] | (bytes[start + 1] << 8);
  return length === 0 ? {} : JSON.parse(bytes.toString("utf8", start + 2, start + 2 + length));
}
function findNode(idAndName) {
  for (let number = 1; number <= header[2]; number++) {
    const node = readNode(number);
    if (node.id !== undefined && (idAndName === node.id || idAndName.startsWith(node.id + " ["))) return node;
  }
  return { nodeId: idAndName.split(" [", 1)[0], nodeType: "function" };
}
const report = (fault) => socket.write(JSON.stringify(fault) + "\\n");
let session;
try {
  session = new (require("node:inspector").Session)();
  session.connectToMainThread();
} catch {
  session = undefined;
}
const functions = new Map();
session?.on("Debugger.scriptParsed", ({ params: { scriptId, url } }) => {
  if (url.startsWith("Function node")) functions.set(scriptId, url);
});
session?.on("Debugger.paused", ({ params: { callFrames } }) => {
  session.post("Debugger.resume");
  session.post("Debugger.disable");
  const frame = callFrames.find(({ location }) => functions.has(location.scriptId));
  if (frame === undefined) return;
  const { scriptId, lineNumber, columnNumber } = frame.location;
  const [, kind, idAndName] = /^Function node( setup| cleanup|):(.*)$/s.exec(functions.get(scriptId)) ?? [];
  if (idAndName === undefined) return;
  const { lines, chars } = prefixes[kind];
  const line = lineNumber + 1 - lines;
  const column = columnNumber + 1 - (line === 1 ? chars : 0);
  report({ node: findNode(idAndName), line, column, isCertain: true });
});
let reported = 0;
let ticks = 0;
let missed = 0;
setInterval(() => {
  const [active] = header;
  const now = Atomics.load(header, 1);
  missed = now === ticks ? missed + 1 : 0;
  ticks = now;
  // After a sample, the node that is active next is reported, which replaces it.
  if (active !== reported && active > 0 && missed < 4) {
    reported = active;
    report({ node: readNode(active), isCertain: false });
  }
  if (missed === 3 && session !== undefined) {
    functions.clear();
    session.post("Debugger.enable");
    session.post("Debugger.pause");
    reported = 0;
  }
}, 250);
`;

/** Unix time is compared several times a second, because that clock can be set. */
const watchDeadline = `
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
 * reads a pipe that only the parent keeps open. It writes there which nodes are active. Resolves when the thread runs.
 */
export async function startParentWatchdog(activity: SharedActivity): Promise<void> {
  await startThread(`${watchParent}${watchActivity}parentPort.postMessage("watching");`, { activity });
}

/**
 * Starts the parent watchdog, which also kills the process group at `deadline`. The parent writes later ones to the pipe, and the thread copies them into `deadline`.
 * Resolves when those that it has written so far are there.
 */
export async function startDeadlineWatchdog(activity: SharedActivity, deadline: SharedDeadline): Promise<void> {
  await startThread(watchParent + watchActivity + watchDeadline, { activity, deadline });
}

async function startThread(
  program: string,
  workerData: { readonly activity: SharedActivity; readonly deadline?: SharedDeadline },
): Promise<void> {
  const worker = new Worker(program, {
    eval: true,
    env: {},
    workerData,
    resourceLimits: { maxOldGenerationSizeMb: 32 },
  });
  worker.unref();
  await once(worker, "message");
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
