import { argon2, randomBytes, timingSafeEqual } from "node:crypto";
import { promisify } from "node:util";

export type PasswordHash = Argon2idHash | BcryptHash;

/** Parses an argon2id PHC string or a bcrypt string; undefined: invalid, or too expensive to check. */
export function parsePasswordHash(text: string): PasswordHash | undefined {
  return parseArgon2id(text) ?? parseBcrypt(text);
}

/** An argon2id hash, parsed from a PHC string: `$argon2id$v=19$m=19456,t=2,p=1$<salt>$<hash>`. */
type Argon2idHash = {
  readonly kind: "argon2id";
  readonly memoryKib: number;
  readonly passes: number;
  readonly parallelism: number;
  readonly salt: Buffer;
  readonly tag: Buffer;
};

/** OWASP's recommendation for argon2id (Password Storage Cheat Sheet): 19 MiB, two passes, one lane. */
const recommended = { memoryKib: 19_456, passes: 2, parallelism: 1 };
const saltBytes = 16;
const tagBytes = 32;

const phc =
  /^\$argon2id\$v=19\$m=([1-9]\d{0,9}),t=([1-9]\d{0,9}),p=([1-9]\d{0,9})\$([A-Za-z0-9+/]+)\$([A-Za-z0-9+/]+)$/;

/** Returns undefined if the text is not an argon2id PHC string, or a parameter is too weak, or too expensive to check. */
function parseArgon2id(text: string): Argon2idHash | undefined {
  const match = phc.exec(text);
  if (match === null) {
    return undefined;
  }
  const [, memory = "", passes = "", parallelism = "", salt = "", tag = ""] = match;
  const hash: Argon2idHash = {
    kind: "argon2id",
    memoryKib: Number(memory),
    passes: Number(passes),
    parallelism: Number(parallelism),
    salt: Buffer.from(salt, "base64"),
    tag: Buffer.from(tag, "base64"),
  };
  return isInRange(hash) ? hash : undefined;
}

function isInRange({ memoryKib, passes, parallelism, salt, tag }: Argon2idHash): boolean {
  return (
    memoryKib >= Math.max(32, 8 * parallelism) &&
    memoryKib <= 1_048_576 &&
    passes <= 16 &&
    parallelism <= 16 &&
    salt.length >= 8 &&
    salt.length <= 64 &&
    tag.length >= 16 &&
    tag.length <= 64
  );
}

/** Hashes with a random salt, on libuv's threads. Returns a PHC string. */
export async function hashArgon2id(password: string): Promise<string> {
  const { memoryKib, passes, parallelism } = recommended;
  const salt = randomBytes(saltBytes);
  const tag = await derive(password, { ...recommended, salt }, tagBytes);
  return `$argon2id$v=19$m=${memoryKib},t=${passes},p=${parallelism}$${unpadded(salt)}$${unpadded(tag)}`;
}

export async function verifyArgon2id(password: string, hash: Argon2idHash): Promise<boolean> {
  return timingSafeEqual(await derive(password, hash, hash.tag.length), hash.tag);
}

const deriveKey = promisify(argon2);

function derive(
  password: string,
  { memoryKib, passes, parallelism, salt }: Omit<Argon2idHash, "kind" | "tag">,
  tagLength: number,
): Promise<Buffer> {
  return deriveKey("argon2id", { message: password, nonce: salt, memory: memoryKib, passes, parallelism, tagLength });
}

function unpadded(bytes: Buffer): string {
  return bytes.toString("base64").replaceAll("=", "");
}

export type BcryptHash = { readonly kind: "bcrypt"; readonly text: string };

/** 2^16 rounds already take several seconds. */
const maxCost = 16;

/** undefined: not a `$2a$`, `$2b$` or `$2y$` string, or its cost is more than `maxCost`. */
function parseBcrypt(text: string): BcryptHash | undefined {
  const cost = Number(/^\$2[aby]\$(\d\d)\$[./A-Za-z0-9]{53}$/.exec(text)?.[1]);
  return cost >= 4 && cost <= maxCost ? { kind: "bcrypt", text } : undefined;
}
