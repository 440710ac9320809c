import { Worker } from "node:worker_threads";
import { programFile } from "../base/program-file.ts";
import type { BcryptResult, BcryptRequest } from "./bcrypt-worker.ts";

export type BcryptHash = { readonly kind: "bcrypt"; readonly text: string };

/** 2^16 rounds already take several seconds. */
const maxCost = 16;

/** undefined: not a `$2a$`, `$2b$` or `$2y$` string, or its cost is more than `maxCost`. */
export function parseBcrypt(text: string): BcryptHash | undefined {
  const cost = Number(/^\$2[aby]\$(\d\d)\$[./A-Za-z0-9]{53}$/.exec(text)?.[1]);
  return cost >= 4 && cost <= maxCost ? { kind: "bcrypt", text } : undefined;
}

const idle = new Set<Worker>();

/**
 * Verifies on a worker thread, since the asynchronous form of bcryptjs still runs on the event loop, in slices. There is
 * one thread per concurrent call; threads are reused and do not keep the process alive.
 */
export function verifyBcrypt(password: string, hash: BcryptHash): Promise<boolean> {
  const worker = takeWorker();
  const { promise, resolve, reject } = Promise.withResolvers<boolean>();
  const onExit = (): void => reject(new Error("the bcrypt thread exited before it responded"));
  worker.once("error", reject);
  worker.once("exit", onExit);
  worker.once("message", ({ isCorrect }: BcryptResult) => {
    worker.off("error", reject);
    worker.off("exit", onExit);
    worker.unref();
    idle.add(worker);
    resolve(isCorrect);
  });
  worker.ref();
  // bcrypt uses only 72 bytes. Slicing at 73 characters never splits a surrogate pair within them.
  const request: BcryptRequest = { password: password.slice(0, 73), hash: hash.text };
  // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread, not a window
  worker.postMessage(request);
  return promise;
}

function takeWorker(): Worker {
  const [idleWorker] = idle;
  if (idleWorker !== undefined) {
    idle.delete(idleWorker);
    return idleWorker;
  }
  const worker = new Worker(programFile("auth/bcrypt-worker"));
  worker.once("exit", () => idle.delete(worker));
  return worker;
}
