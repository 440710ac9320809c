import { base64Decode, base64Encode } from "@bufbuild/protobuf/wire";

const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
const encoder = new TextEncoder();

export function decodeUtf8(bytes: Uint8Array): string | undefined {
  try {
    return decoder.decode(bytes);
  } catch {
    return undefined;
  }
}

export function encodeUtf8(text: string): Uint8Array {
  return encoder.encode(text);
}

export function utf8Length(text: string): number {
  return encoder.encode(text).length;
}

/** Engines limit the number of arguments of a call. */
const MAX_ARGUMENTS = 8192;

/** Decodes each byte to the character with this code. `TextDecoder` decodes windows-1252 instead. */
export function decodeLatin1(bytes: Uint8Array): string {
  let text = "";
  for (let start = 0; start < bytes.length; start += MAX_ARGUMENTS) {
    text += String.fromCharCode(...bytes.subarray(start, start + MAX_ARGUMENTS));
  }
  return text;
}

export function encodeLatin1(text: string): Uint8Array {
  return Uint8Array.from(text, (character) => character.charCodeAt(0));
}

export function encodeBase64(bytes: Uint8Array): string {
  return base64Encode(bytes);
}

export function decodeBase64(text: string): Uint8Array {
  return base64Decode(text);
}

export function concatBytes(chunks: readonly Uint8Array[]): Uint8Array {
  const all = new Uint8Array(chunks.reduce((length, chunk) => length + chunk.length, 0));
  let at = 0;
  for (const chunk of chunks) {
    all.set(chunk, at);
    at += chunk.length;
  }
  return all;
}

/** Memory for bytes that are written at once. */
export function allocate(length: number): Uint8Array<ArrayBuffer> {
  return new Uint8Array(length);
}

export function allocateUnpooled(length: number): Uint8Array<ArrayBuffer> {
  return new Uint8Array(length);
}

export function indexOfBytes(bytes: Uint8Array, searched: Uint8Array, from: number = 0): number {
  const [first = 0] = searched;
  for (let at = bytes.indexOf(first, from); at !== -1; at = bytes.indexOf(first, at + 1)) {
    if (searched.every((byte, index) => bytes[at + index] === byte)) {
      return at;
    }
  }
  return -1;
}
