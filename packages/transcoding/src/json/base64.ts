import { base64Decode, base64Encode } from "@bufbuild/protobuf/wire";

/** Node's Buffer is several times as fast as the portable functions. Browsers have none. */
const { Buffer: NodeBuffer } = globalThis as { Buffer?: typeof Buffer };

export const encodeBase64: (bytes: Uint8Array) => string =
  NodeBuffer === undefined
    ? (bytes) => base64Encode(bytes)
    : (bytes) => NodeBuffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("base64");

/** Decodes base64 or base64url, which must be valid. */
export const decodeBase64: (text: string) => Uint8Array =
  NodeBuffer === undefined
    ? base64Decode
    : // Copied, because a small Buffer is part of a shared pool.
      (text) => new Uint8Array(NodeBuffer.from(text, "base64"));
