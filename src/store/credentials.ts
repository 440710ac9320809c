import { hkdfSync, randomBytes, createCipheriv, createDecipheriv } from "node:crypto";
import { link, open, rm } from "node:fs/promises";
import { join } from "node:path";
import { makeDirectory } from "../base/directories.ts";
import { hasCode } from "../base/error-code.ts";
import type { CredentialSets } from "../flows/configuration.ts";

const keyBytes = 32;
const keyFile = "credential.key";

/**
 * Returns the key that encrypts credentials, 32 bytes. It is derived from `credentialSecret`, or read from
 * `<dataDir>/credential.key`, which is created if it is missing.
 */
export async function readKey(options: { credentialSecret?: string | undefined; dataDir: string }): Promise<Buffer> {
  const { credentialSecret, dataDir } = options;
  return credentialSecret === undefined ? readKeyFile(dataDir) : deriveKey(credentialSecret);
}

/**
 * Returns the keys that credentials may have been encrypted with: that of `credentialSecret`, and that in `dataDir`. The first
 * one is the key of new credentials. Throws if there is none.
 */
export async function readKnownKeys(options: {
  credentialSecret?: string | undefined;
  dataDir: string;
}): Promise<readonly Buffer[]> {
  const { credentialSecret, dataDir } = options;
  const stored = await readPrivateFile(join(dataDir, keyFile));
  const keys = [...(credentialSecret === undefined ? [] : [deriveKey(credentialSecret)]), ...(stored ? [stored] : [])];
  if (keys.length === 0) {
    throw new Error(
      `there is no key for the credentials: name the data directory that contains ${keyFile} with --data-dir, ` +
        "FLOWGATE_DATA_DIR or dataDir, or configure credentialSecret",
    );
  }
  return keys;
}

function deriveKey(credentialSecret: string): Buffer {
  if (credentialSecret === "") {
    throw new Error("credentialSecret must not be empty: set a long random one, or leave it out.");
  }
  // HKDF separates this key from the one that the `$` format derives from the same secret (its plain SHA-256). It does not
  // strengthen a guessable secret. The info string names the purpose and must never change.
  return Buffer.from(hkdfSync("sha256", credentialSecret, "", "flowgate credentials at rest v1", keyBytes));
}

async function readKeyFile(dataDir: string): Promise<Buffer> {
  const path = join(dataDir, keyFile);
  const existing = await readPrivateFile(path);
  if (existing !== undefined) {
    return existing;
  }
  makeDirectory(dataDir);
  await createKeyFile(dataDir, path);
  const made = await readPrivateFile(path);
  if (made === undefined) {
    throw new Error(`${path} was removed while it was being created.`);
  }
  return made;
}

/** Writes the file under a temporary name and links it, so that concurrent processes use the key of the first one. */
async function createKeyFile(dataDir: string, path: string): Promise<void> {
  const draft = `${path}.${randomBytes(8).toString("hex")}`;
  try {
    await using file = await open(draft, "wx", 0o600);
    await file.writeFile(randomBytes(keyBytes));
    await file.sync();
    await link(draft, path).catch((error: unknown) => {
      if (!hasCode(error, "EEXIST")) {
        throw error;
      }
    });
  } finally {
    await rm(draft, { force: true });
  }
  // Makes the file name durable: without the key, stored credentials could not be decrypted after a power failure.
  await using folder = await open(dataDir, "r");
  await folder.sync();
}

async function readPrivateFile(path: string): Promise<Buffer | undefined> {
  const file = await open(path, "r").catch((error: unknown) => {
    if (hasCode(error, "ENOENT")) {
      return undefined;
    }
    throw error;
  });
  if (file === undefined) {
    return undefined;
  }
  await using _ = file;
  const { mode } = await file.stat();
  if (process.platform !== "win32" && (mode & 0o077) !== 0) {
    throw new Error(`${path} can be read by other users: make it private with chmod 600.`);
  }
  const key = await file.readFile();
  if (key.length !== keyBytes) {
    throw new Error(`${path} must contain ${keyBytes} bytes, not ${key.length}: restore it from a backup.`);
  }
  return key;
}

/*
 * Format: version (1 byte), nonce (12), tag (16), AES-256-GCM over JSON. The version and the revision are additional
 * authenticated data, so that credentials of one revision can't be decrypted as those of another.
 */
const sealVersion = 1;
const nonceBytes = 12;
const tagBytes = 16;
const headerBytes = 1 + nonceBytes + tagBytes;

/** Encrypts the credentials of a revision. `key` has 32 bytes. */
export function sealCredentials(key: Buffer, rev: string, sets: CredentialSets): Buffer {
  // Entries instead of objects, because "__proto__" is a valid node id.
  const entries = Array.from(sets, ([id, set]) => [id, [...set]]);
  return sealText(key, rev, JSON.stringify(entries));
}

/** Encrypts text with credentials. `name` is what has them: a `rev`, or a name that contains a space. */
export function sealText(key: Buffer, name: string, text: string): Buffer {
  const nonce = randomBytes(nonceBytes);
  const cipher = createCipheriv("aes-256-gcm", key, nonce, { authTagLength: tagBytes });
  cipher.setAAD(associatedData(name));
  const sealed = Buffer.concat([cipher.update(text, "utf8"), cipher.final()]);
  return Buffer.concat([Buffer.of(sealVersion), nonce, cipher.getAuthTag(), sealed]);
}

/** Decrypts the credentials of a revision. Throws if the key is another one, or the bytes are damaged. */
export function openCredentials(key: Buffer, rev: string, sealed: Uint8Array): CredentialSets {
  const entries = JSON.parse(openText(key, rev, sealed)) as [string, [string, string][]][];
  return new Map(entries.map(([id, set]) => [id, new Map(set)]));
}

/** Decrypts what `sealText` has encrypted. Throws like `openCredentials`. */
export function openText(key: Buffer, name: string, sealed: Uint8Array): string {
  const text = decrypt(key, name, sealed);
  if (text === undefined) {
    throw new Error(
      "The stored credentials can't be decrypted with this credentialSecret. Set the one that was used to store them. " +
        "If none was set, leave it out and restore the credential.key of that time to the data directory.",
    );
  }
  return text.toString("utf8");
}

/** Whether the credentials of a revision, or others with such a name, were encrypted with this key. */
export function isKeyOf(key: Buffer, rev: string, sealed: Uint8Array): boolean {
  return decrypt(key, rev, sealed) !== undefined;
}

/** Returns undefined if the bytes were encrypted with another key, or changed. */
function decrypt(key: Buffer, rev: string, sealed: Uint8Array): Buffer | undefined {
  const bytes = Buffer.from(sealed.buffer, sealed.byteOffset, sealed.byteLength);
  if (bytes.length < headerBytes) {
    throw new Error(`The stored credentials of revision ${rev} are damaged: restore the database from a backup.`);
  }
  if (bytes[0] !== sealVersion) {
    throw new Error(
      `The stored credentials of revision ${rev} were encrypted by a newer version of Flowgate: use that version.`,
    );
  }
  const decipher = createDecipheriv("aes-256-gcm", key, bytes.subarray(1, 1 + nonceBytes), {
    authTagLength: tagBytes,
  });
  decipher.setAAD(associatedData(rev));
  decipher.setAuthTag(bytes.subarray(1 + nonceBytes, headerBytes));
  const text = decipher.update(bytes.subarray(headerBytes));
  try {
    decipher.final();
    return text;
  } catch {
    // The tag is another one.
    return undefined;
  }
}

function associatedData(rev: string): Buffer {
  return Buffer.from(`flowgate credentials ${sealVersion} ${rev}`);
}
