import { type Argon2idHash, hashArgon2id, parseArgon2id, verifyArgon2id } from "./argon2id.ts";
import type { FlowgateError } from "../errors.ts";
import { type BcryptHash, parseBcrypt, verifyBcrypt } from "./bcrypt.ts";
import { createFairQueue } from "../base/fair-queue.ts";
import { tokenError } from "./token-error.ts";

export type PasswordHash = Argon2idHash | BcryptHash;

// Shared by the process, since each hash takes a core and 19 MiB or more.
const queue = createFairQueue({
  concurrency: 2,
  maxQueued: 100,
  createFullError: tooManyLogins,
});

export function tooManyLogins(): FlowgateError {
  return tokenError("temporarily_unavailable", "Too many concurrent logins; try again in a second.", {
    retryAfterSeconds: 1,
  });
}

/** Parses an argon2id PHC string or a bcrypt string; undefined: invalid, or too expensive to check. */
export function parsePasswordHash(text: string): PasswordHash | undefined {
  return parseArgon2id(text) ?? parseBcrypt(text);
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
