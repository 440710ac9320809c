import { Worker } from "node:worker_threads";
import { createFairQueue } from "@flowgate/base/fair-queue";
import { type BcryptHash, hashArgon2id, type PasswordHash, verifyArgon2id } from "@flowgate/base/password-hash";
import { programFile } from "../base/program-file.ts";
import type { FlowgateError } from "@flowgate/flows/errors";
import type { BcryptRequest, BcryptResult } from "./bcrypt-worker.ts";
import { tokenError } from "./errors.ts";

// Shared by the process, since each hash takes a core and 19 MiB or more.
const queue = createFairQueue({ concurrency: 2, maxQueued: 100, createFullError: tooManyLogins });

export function tooManyLogins(): FlowgateError {
  return tokenError("temporarily_unavailable", "Too many concurrent logins; try again in a second.", {
    retryAfterSeconds: 1,
  });
}

/** Returns an argon2id PHC string. */
export function hashPassword(password: string): Promise<string> {
  return queue.run(() => hashArgon2id(password));
}

/** Hashes of the same cost take the same time to check. */
export function costOf(hash: PasswordHash): string {
  return hash.kind === "argon2id"
    ? `argon2id ${hash.memoryKib} ${hash.passes} ${hash.parallelism} ${hash.tag.length}`
    : `bcrypt ${hash.text.slice(4, 6)}`;
}

/** Checks a password against each of the hashes, one after another. Runs off the event loop. */
export function verifyPasswords(password: string, hashes: readonly PasswordHash[]): Promise<boolean[]> {
  return queue.run(async () => {
    const results: boolean[] = [];
    for (const hash of hashes) {
      results.push(
        hash.kind === "argon2id" ? await verifyArgon2id(password, hash) : await verifyBcrypt(password, hash),
      );
    }
    return results;
  });
}

const idle = new Set<Worker>();

/**
 * Verifies on a worker thread, since the asynchronous form of bcryptjs still runs on the event loop, in slices. There is
 * one thread per concurrent call; threads are reused and do not keep the process alive.
 */
function verifyBcrypt(password: string, hash: BcryptHash): Promise<boolean> {
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
