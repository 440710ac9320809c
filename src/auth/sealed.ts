import { createCipheriv, createDecipheriv, hkdfSync, randomBytes } from "node:crypto";

const version = 1;
const nonceBytes = 12;
const tagBytes = 16;
const headerBytes = 1 + nonceBytes + tagBytes;

/** Derives the key of what browsers and sessions keep, from the key of the credentials. The purpose must never change. */
export function deriveSessionKey(credentialKey: Buffer): Buffer {
  return Buffer.from(hkdfSync("sha256", credentialKey, "", "flowgate sessions v1", 32));
}

/** Derives an access token from two texts. Nobody without the key can derive it. */
export function deriveAccessToken(key: Buffer, first: string, second: string): string {
  return Buffer.from(hkdfSync("sha256", key, first, `access token v1 ${second}`, 32)).toString("base64url");
}

/** Encrypts a value as JSON (AES-256-GCM: version, nonce, tag, text). It can be read with the same context only. */
export function seal(key: Buffer, context: string | Uint8Array, value: unknown): Buffer {
  const nonce = randomBytes(nonceBytes);
  const cipher = createCipheriv("aes-256-gcm", key, nonce, { authTagLength: tagBytes });
  cipher.setAAD(Buffer.from(context));
  const text = Buffer.concat([cipher.update(JSON.stringify(value)), cipher.final()]);
  return Buffer.concat([Buffer.of(version), nonce, cipher.getAuthTag(), text]);
}

/** Returns undefined if the bytes were sealed with another key or context, or changed. */
export function unseal(key: Buffer, context: string | Uint8Array, sealed: Uint8Array): unknown {
  const bytes = Buffer.from(sealed.buffer, sealed.byteOffset, sealed.byteLength);
  if (bytes.length < headerBytes || bytes[0] !== version) {
    return undefined;
  }
  const nonce = bytes.subarray(1, 1 + nonceBytes);
  const decipher = createDecipheriv("aes-256-gcm", key, nonce, { authTagLength: tagBytes });
  decipher.setAAD(Buffer.from(context));
  decipher.setAuthTag(bytes.subarray(1 + nonceBytes, headerBytes));
  const text = decipher.update(bytes.subarray(headerBytes));
  try {
    decipher.final();
  } catch {
    // The tag is another one.
    return undefined;
  }
  return JSON.parse(text.toString()) as unknown;
}
