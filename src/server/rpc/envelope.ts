import { Code, ConnectError } from "@connectrpc/connect";
import type { Compression } from "@connectrpc/connect/protocol";
import { FlowgateError } from "../../errors.ts";
import { createAccumulator } from "@flowgate/transcoding/server";
import { messageTooLarge } from "./compression.ts";
import { toConnectError } from "../errors/connect-error.ts";

/** Before each message: a byte of flags, and the length in four more, big-endian. The same in all three protocols. */
export const envelopeBytes = 5;

export const compressedFlag = 0b1;

/** Of Connect: the last envelope of a stream, with its error and its trailers. */
export const endStreamFlag = 0b10;

/** Of gRPC-Web: the envelope holds the trailers. */
export const trailersFlag = 0b1000_0000;

export function envelope(flags: number, data: Uint8Array): Buffer {
  const bytes = Buffer.allocUnsafe(envelopeBytes + data.length);
  bytes[0] = flags;
  bytes.writeUInt32BE(data.length, 1);
  bytes.set(data, envelopeBytes);
  return bytes;
}

/** The message of a request that has one, decompressed. Throws if there is none, more than one, or it exceeds `maxBytes`. */
export function openEnvelope(
  body: Uint8Array,
  compression: Compression | undefined,
  maxBytes: number,
): Uint8Array | Promise<Uint8Array> {
  if (body.length === 0) {
    throw new ConnectError("the request has no message, but the method takes one", Code.Unimplemented);
  }
  const { flags, length } = readPrefix(body, maxBytes);
  const end = envelopeBytes + length;
  if (body.length < end) {
    throw incomplete();
  }
  if (body.length > end) {
    throw new ConnectError("the request has more than one message, but the method takes one", Code.Unimplemented);
  }
  return decompress(flags, body.subarray(envelopeBytes), compression, maxBytes);
}

/** The messages of a request that streams, decompressed. */
export async function* openEnvelopes(
  body: AsyncIterable<Uint8Array>,
  compression: Compression | undefined,
  maxBytes: number,
): AsyncGenerator<Uint8Array> {
  let prefix: ReturnType<typeof readPrefix> | undefined;
  let part = createAccumulator(envelopeBytes, envelopeBytes);
  for await (const chunk of body) {
    let rest = chunk;
    for (;;) {
      const missing = (prefix?.length ?? envelopeBytes) - part.bytes;
      if (rest.length < missing) {
        break;
      }
      part.append(rest.subarray(0, missing));
      rest = rest.subarray(missing);
      if (prefix === undefined) {
        prefix = readPrefix(part.take(), maxBytes);
        part = createAccumulator(prefix.length, prefix.length);
      } else {
        yield await decompress(prefix.flags, part.take(), compression, maxBytes);
        prefix = undefined;
        part = createAccumulator(envelopeBytes, envelopeBytes);
      }
    }
    if (rest.length > 0) {
      part.append(rest);
    }
  }
  if (part.bytes > 0 || prefix !== undefined) {
    throw incomplete();
  }
}

function readPrefix(bytes: Uint8Array, maxBytes: number): { flags: number; length: number } {
  if (bytes.length < envelopeBytes) {
    throw incomplete();
  }
  const [flags = 0] = bytes;
  if (flags > compressedFlag) {
    throw toConnectError(new FlowgateError("invalid_request", "the request message has flags that are not known"));
  }
  const length = new DataView(bytes.buffer, bytes.byteOffset).getUint32(1);
  if (length > maxBytes) {
    throw messageTooLarge(maxBytes);
  }
  return { flags, length };
}

function decompress(
  flags: number,
  data: Uint8Array,
  compression: Compression | undefined,
  maxBytes: number,
): Uint8Array | Promise<Uint8Array> {
  if (flags !== compressedFlag) {
    return data;
  }
  if (compression === undefined) {
    // As gRPC's compression.md has it.
    throw new ConnectError("a message is compressed, but no header says how", Code.Internal);
  }
  return compression.decompress(data, maxBytes);
}

function incomplete(): ConnectError {
  return new ConnectError("the request message is incomplete", Code.InvalidArgument);
}
