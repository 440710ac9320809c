import { type Argon2idHash, hashArgon2id, parseArgon2id, verifyArgon2id } from "./argon2id.ts";
import { type BcryptHash, parseBcrypt, verifyBcrypt } from "./bcrypt.ts";
import { createHashingQueue } from "./hashing-queue.ts";
import { tokenError } from "./token-error.ts";

export type PasswordHash = Argon2idHash | BcryptHash;

// One for the process: each hashing takes a core and 19 MiB or more.
const queue = createHashingQueue({
  atOnce: 2,
  waiting: 100,
  refuse: () =>
    tokenError("temporarily_unavailable", "Too many logins at once; try again in a second.", { retryAfterSeconds: 1 }),
});

/** Reads an argon2id PHC string or a bcrypt string; undefined where it is neither, or costs too much. */
export function parsePasswordHash(text: string): PasswordHash | undefined {
  return parseArgon2id(text) ?? parseBcrypt(text);
}

/** Gives an argon2id PHC string. */
export function hashPassword(password: string): Promise<string> {
  return queue.run(() => hashArgon2id(password));
}

/** Takes the time that the hash's own parameters ask for, off the event loop. */
export function verifyPassword(password: string, hash: PasswordHash): Promise<boolean> {
  return queue.run(() => (hash.kind === "argon2id" ? verifyArgon2id(password, hash) : verifyBcrypt(password, hash)));
}
