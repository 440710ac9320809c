import { isUtf8 } from "node:buffer";

function bufferOf(bytes: Uint8Array): Buffer {
  return Buffer.isBuffer(bytes) ? bytes : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

/** Decodes UTF-8; a byte order mark is kept. Undefined if the bytes are not valid UTF-8. */
export function decodeUtf8(bytes: Uint8Array): string | undefined {
  const text = bufferOf(bytes).toString("utf8");
  // Invalid bytes become U+FFFD, which most texts do not contain.
  return text.includes("\ufffd") && !isUtf8(bytes) ? undefined : text;
}

/** Encodes a text in UTF-8; lone surrogates become U+FFFD. */
export function encodeUtf8(text: string): Uint8Array {
  return Buffer.from(text);
}

export function utf8Length(text: string): number {
  return Buffer.byteLength(text);
}

/** Decodes each byte to the character with this code. */
export function decodeLatin1(bytes: Uint8Array): string {
  return bufferOf(bytes).toString("latin1");
}

/** Encodes each character, up to U+00FF, as the byte with its code. */
export function encodeLatin1(text: string): Uint8Array {
  return Buffer.from(text, "latin1");
}

export function encodeBase64(bytes: Uint8Array): string {
  return bufferOf(bytes).toString("base64");
}

/** Decodes base64 or base64url, which must be valid. */
export function decodeBase64(text: string): Uint8Array {
  // Copied, because a small Buffer is part of a shared pool.
  return new Uint8Array(Buffer.from(text, "base64"));
}

export function concatBytes(chunks: readonly Uint8Array[]): Uint8Array {
  return Buffer.concat(chunks);
}

/** Uninitialized memory, for bytes that are written at once. A short one is part of a pool, which it keeps in memory. */
export function allocate(length: number): Uint8Array<ArrayBuffer> {
  return Buffer.allocUnsafe(length);
}

/** The same, not part of a pool. */
export function allocateUnpooled(length: number): Uint8Array<ArrayBuffer> {
  return Buffer.allocUnsafeSlow(length);
}

/** The position of the first occurrence at or after `from`; -1 if there is none. */
export function indexOfBytes(bytes: Uint8Array, searched: Uint8Array, from: number = 0): number {
  return bufferOf(bytes).indexOf(searched, from);
}
