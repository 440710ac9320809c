import { createCipheriv, createDecipheriv, randomBytes } from "node:crypto";

/*
 * Format: version (1 byte), nonce (12), tag (16), AES-256-GCM. The context is additional authenticated data, so that bytes can't be
 * decrypted in the place of others.
 */
export const sealVersion = 1;
const nonceBytes = 12;
const tagBytes = 16;
export const headerBytes = 1 + nonceBytes + tagBytes;

/** Encrypts bytes. `key` has 32 bytes. */
export function seal(key: Buffer, context: string | Uint8Array, text: string | Uint8Array): Buffer {
  const nonce = randomBytes(nonceBytes);
  const cipher = createCipheriv("aes-256-gcm", key, nonce, { authTagLength: tagBytes });
  cipher.setAAD(Buffer.from(context));
  const sealed = Buffer.concat([cipher.update(text), cipher.final()]);
  return Buffer.concat([Buffer.of(sealVersion), nonce, cipher.getAuthTag(), sealed]);
}

/** Returns undefined if the bytes were sealed with another key or context, or changed. */
export function unseal(key: Buffer, context: string | Uint8Array, sealed: Uint8Array): Buffer | undefined {
  const bytes = Buffer.from(sealed.buffer, sealed.byteOffset, sealed.byteLength);
  if (bytes.length < headerBytes || bytes[0] !== sealVersion) {
    return undefined;
  }
  const decipher = createDecipheriv("aes-256-gcm", key, bytes.subarray(1, 1 + nonceBytes), { authTagLength: tagBytes });
  decipher.setAAD(Buffer.from(context));
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
