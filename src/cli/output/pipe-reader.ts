import { fstatSync } from "node:fs";

const stdout = 1;
const checkMs = 500;

/**
 * Calls the function once if stdout is a pipe that no process can read any more. That is noticed within a second, also while nothing is
 * written, when Node notices nothing.
 */
export function whenUnread(callback: () => void): void {
  if (!fstatSync(stdout).isFIFO()) {
    return;
  }
  const isUnread = createPoll(stdout);
  const timer = setInterval(check, checkMs).unref();
  check();

  function check(): void {
    if (isUnread()) {
      clearInterval(timer);
      callback();
    }
  }
}

type Poll = (subscriptions: number, events: number, count: number, eventCount: number) => number;

/** Returns a function that asks the system whether a pipe has no reader. Of the modules of Node, only WASI can do that. */
function createPoll(fd: number): () => boolean {
  const { WASI } = withoutWarnings(() => process.getBuiltinModule("node:wasi"));
  const memory = new WebAssembly.Memory({ initial: 1 });
  const wasi = new WASI({ version: "preview1", stdin: fd, stdout: fd, stderr: fd });
  wasi.initialize({ exports: { memory } });
  const poll = wasi.wasiImport["poll_oneoff"] as Poll;
  const view = new DataView(memory.buffer);
  // The layouts are those of WASI preview 1: two subscriptions, of which the second is a millisecond on the monotonic clock.
  view.setUint8(8, eventTypes.fdWrite);
  view.setUint32(16, fd, true);
  view.setUint8(subscriptionBytes + 8, eventTypes.clock);
  view.setUint32(subscriptionBytes + 16, 1, true);
  view.setBigUint64(subscriptionBytes + 24, 1_000_000n, true);
  const [events, eventCount] = [2 * subscriptionBytes, 2 * (subscriptionBytes + eventBytes)];
  // The first event says that the pipe can be written, or has an error since there is no reader, or that the time is over.
  return () => poll(0, events, 2, eventCount) === 0 && view.getUint16(events + 8, true) !== 0;
}

const eventTypes = { clock: 0, fdWrite: 2 } as const;
const [subscriptionBytes, eventBytes] = [48, 32];

/** Node prints a warning when a module that it calls experimental is loaded. */
function withoutWarnings<T>(load: () => T): T {
  const emitWarning = process.emitWarning.bind(process);
  process.emitWarning = () => {};
  try {
    return load();
  } finally {
    process.emitWarning = emitWarning;
  }
}

/** As far as it is used here; Node's types have none. */
declare const WebAssembly: {
  readonly Memory: new (descriptor: { readonly initial: number }) => { readonly buffer: ArrayBuffer };
};
