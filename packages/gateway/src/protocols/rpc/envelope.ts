import { Code, ConnectError } from "@connectrpc/connect";
import { allocate } from "#platform/bytes";
import { Accumulator } from "../../http/accumulator.ts";
import { RequestError } from "../../http/request-error.ts";
import type { GatewayRequest } from "../../http/request.ts";
import { type MessageCompression, messageTooLarge } from "./compression.ts";

/** Length of the prefix before each message, in all three protocols: one byte of flags, four bytes of length (big-endian). */
export const envelopeBytes = 5;

export const compressedFlag = 0b1;

/** Connect: the last envelope of a stream, which contains its error and trailers. */
export const endStreamFlag = 0b10;

/** gRPC-Web: the envelope contains the trailers. */
export const trailersFlag = 0b1000_0000;

/** The request of a message, which reserves memory to decompress it. */
type Reserving = Pick<GatewayRequest, "reserve">;

export function envelope(flags: number, data: Uint8Array): Uint8Array {
  const { length } = data;
  const bytes = allocate(envelopeBytes + length);
  bytes[0] = flags;
  bytes[1] = length >>> 24;
  bytes[2] = length >>> 16;
  bytes[3] = length >>> 8;
  bytes[4] = length;
  bytes.set(data, envelopeBytes);
  return bytes;
}

/** The single message of a request, decompressed. Throws if there is none or more than one, or it exceeds `maxBytes`. */
export function openEnvelope(
  body: Uint8Array,
  compression: MessageCompression | undefined,
  maxBytes: number,
  request: Reserving,
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
  return decompress(flags, body.subarray(envelopeBytes), compression, maxBytes, request);
}

/** The messages of a streaming request, decompressed. */
export async function* openEnvelopes(
  body: AsyncIterable<Uint8Array>,
  compression: MessageCompression | undefined,
  maxBytes: number,
  request: Reserving,
): AsyncGenerator<Uint8Array> {
  let prefix: ReturnType<typeof readPrefix> | undefined;
  let part = new Accumulator(envelopeBytes, envelopeBytes);
  for await (const chunk of body) {
    let remaining = chunk;
    for (;;) {
      const missing = (prefix?.length ?? envelopeBytes) - part.bytes;
      if (remaining.length < missing) {
        break;
      }
      part.append(remaining.subarray(0, missing));
      remaining = remaining.subarray(missing);
      if (prefix === undefined) {
        prefix = readPrefix(part.take(), maxBytes);
        part = new Accumulator(prefix.length, prefix.length);
      } else {
        yield await decompress(prefix.flags, part.take(), compression, maxBytes, request);
        prefix = undefined;
        part = new Accumulator(envelopeBytes, envelopeBytes);
      }
    }
    if (remaining.length > 0) {
      part.append(remaining);
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
  // Not a DataView, which would be an object for each message.
  const flags = bytes[0] as number;
  if (flags > compressedFlag) {
    throw new RequestError(400, "invalid_request", "the request message has unknown flags");
  }
  const length =
    (((bytes[1] as number) << 24) |
      ((bytes[2] as number) << 16) |
      ((bytes[3] as number) << 8) |
      (bytes[4] as number)) >>>
    0;
  if (length > maxBytes) {
    throw messageTooLarge(maxBytes);
  }
  return { flags, length };
}

function decompress(
  flags: number,
  data: Uint8Array,
  compression: MessageCompression | undefined,
  maxBytes: number,
  request: Reserving,
): Uint8Array | Promise<Uint8Array> {
  if (flags !== compressedFlag) {
    return data;
  }
  if (compression === undefined) {
    // The code is specified by gRPC's compression.md.
    throw new ConnectError("a message is compressed, but no header specifies its compression", Code.Internal);
  }
  return compression.decompress(data, maxBytes, request);
}

function incomplete(): ConnectError {
  return new ConnectError("the request message is incomplete", Code.InvalidArgument);
}
