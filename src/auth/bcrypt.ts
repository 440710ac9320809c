import { extname } from "node:path";
import { Worker } from "node:worker_threads";
import type { BcryptResult, BcryptRequest } from "./bcrypt-worker.ts";

export type BcryptHash = { readonly kind: "bcrypt"; readonly text: string };

/** 2^16 rounds take several seconds, on any machine. */
const maxCost = 16;

/** undefined where it is no `$2a$`, `$2b$` or `$2y$` string, or one that costs more than a login may. */
export function parseBcrypt(text: string): BcryptHash | undefined {
  const cost = Number(/^\$2[aby]\$(\d\d)\$[./A-Za-z0-9]{53}$/.exec(text)?.[1]);
  return cost >= 4 && cost <= maxCost ? { kind: "bcrypt", text } : undefined;
}

// The name ends as this file's does: .ts as it stands, .js when it is built.
const workerUrl = new URL(`./bcrypt-worker${extname(import.meta.url)}`, import.meta.url);

const idle = new Set<Worker>();

/**
 * Verifies on a thread of its own: bcryptjs is JavaScript, and its asynchronous form burns the event loop
 * in slices. As many threads as there are calls at once; they stay for the next calls, and keep no process alive.
 */
export function verifyBcrypt(password: string, hash: BcryptHash): Promise<boolean> {
  const worker = takeWorker();
  const { promise, resolve, reject } = Promise.withResolvers<boolean>();
  const ended = (): void => reject(new Error("the bcrypt thread ended before it answered"));
  worker.once("error", reject);
  worker.once("exit", ended);
  worker.once("message", ({ right }: BcryptResult) => {
    worker.off("error", reject);
    worker.off("exit", ended);
    worker.unref();
    idle.add(worker);
    resolve(right);
  });
  worker.ref();
  // bcrypt reads 72 bytes; the 73rd character lets no surrogate pair be cut within them.
  const question: BcryptRequest = { password: password.slice(0, 73), hash: hash.text };
  // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread, not a window
  worker.postMessage(question);
  return promise;
}

function takeWorker(): Worker {
  const [waiting] = idle;
  if (waiting !== undefined) {
    idle.delete(waiting);
    return waiting;
  }
  const started = new Worker(workerUrl);
  started.once("exit", () => idle.delete(started));
  return started;
}
