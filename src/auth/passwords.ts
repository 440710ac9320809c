import { type Argon2idHash, hashArgon2id, parseArgon2id, verifyArgon2id } from "./argon2id.ts";
import { type BcryptHash, parseBcrypt, verifyBcrypt } from "./bcrypt.ts";
import { createHashingQueue } from "./hashing-queue.ts";
import { tokenError } from "./token-error.ts";

export type PasswordHash = Argon2idHash | BcryptHash;

// Shared by the process, since each hash takes a core and 19 MiB or more.
const queue = createHashingQueue({
  concurrency: 2,
  maxQueued: 100,
  createFullError: () =>
    tokenError("temporarily_unavailable", "Too many concurrent logins; try again in a second.", {
      retryAfterSeconds: 1,
    }),
});

/** Parses an argon2id PHC string or a bcrypt string; undefined: invalid, or too expensive to check. */
export function parsePasswordHash(text: string): PasswordHash | undefined {
  return parseArgon2id(text) ?? parseBcrypt(text);
}

/** Returns an argon2id PHC string. */
export function hashPassword(password: string): Promise<string> {
  return queue.run(() => hashArgon2id(password));
}

/** Runs off the event loop; the duration depends on the parameters of the hash. */
export function verifyPassword(password: string, hash: PasswordHash): Promise<boolean> {
  return queue.run(() => (hash.kind === "argon2id" ? verifyArgon2id(password, hash) : verifyBcrypt(password, hash)));
}
