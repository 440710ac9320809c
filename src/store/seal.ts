import { createCipheriv, createDecipheriv, randomBytes } from "node:crypto";
import type { CredentialSets } from "../flows/configuration.ts";

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
  const nonce = randomBytes(nonceBytes);
  const cipher = createCipheriv("aes-256-gcm", key, nonce, { authTagLength: tagBytes });
  cipher.setAAD(associatedData(rev));
  // Entries instead of objects, because "__proto__" is a valid node id.
  const entries = Array.from(sets, ([id, set]) => [id, [...set]]);
  const sealed = Buffer.concat([cipher.update(JSON.stringify(entries), "utf8"), cipher.final()]);
  return Buffer.concat([Buffer.of(sealVersion), nonce, cipher.getAuthTag(), sealed]);
}

/** Decrypts the credentials of a revision. Throws if the key is another one, or the bytes are damaged. */
export function openCredentials(key: Buffer, rev: string, sealed: Uint8Array): CredentialSets {
  const text = decrypt(key, rev, sealed);
  if (text === undefined) {
    throw new Error(
      "The stored credentials can't be decrypted with this credentialSecret. Set the one that was used to store them. " +
        "If none was set, leave it out and restore the credential.key of that time to the data directory.",
    );
  }
  const entries = JSON.parse(text.toString("utf8")) as [string, [string, string][]][];
  return new Map(entries.map(([id, set]) => [id, new Map(set)]));
}

/** Whether the credentials of a revision were encrypted with this key. */
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
