import { Code, ConnectError } from "@connectrpc/connect";
import { FlowgateError } from "../../errors.ts";
import { messageTooLarge } from "./compression.ts";

/** Before each message: a byte of flags, and the length in four more, big-endian. */
export const envelopeBytes = 5;

export const compressedFlag = 0b1;

/** Of gRPC-Web: the frame holds the trailers. */
const trailersFlag = 0b1000_0000;

export function envelope(flags: number, data: Uint8Array): Buffer {
  const bytes = Buffer.allocUnsafe(envelopeBytes + data.length);
  bytes[0] = flags;
  bytes.writeUInt32BE(data.length, 1);
  bytes.set(data, envelopeBytes);
  return bytes;
}

/** Reads the one message of a unary request. Throws if there is none, more than one, or one that is too large. */
export function readEnvelope(body: Uint8Array, maxBytes: number): { flags: number; data: Uint8Array<ArrayBuffer> } {
  if (body.length === 0) {
    throw new ConnectError("the request has no message, but the method takes one", Code.Unimplemented);
  }
  const view = new DataView(body.buffer, body.byteOffset, body.byteLength);
  const length = body.length < envelopeBytes ? 0 : view.getUint32(1);
  if (length > maxBytes) {
    throw messageTooLarge(maxBytes);
  }
  const end = envelopeBytes + length;
  if (body.length < end) {
    throw new FlowgateError("invalid_request", "the request message is incomplete");
  }
  if (body.length > end) {
    throw new ConnectError("the request has more than one message, but the method takes one", Code.Unimplemented);
  }
  return { flags: body[0] as number, data: body.subarray(envelopeBytes) as Uint8Array<ArrayBuffer> };
}

/** The last frame of a gRPC-Web response. */
export function formatTrailers(trailers: Readonly<Record<string, string | string[]>>): Buffer {
  let text = "";
  for (const name in trailers) {
    for (const value of [trailers[name] ?? []].flat()) {
      text += `${name}: ${value}\r\n`;
    }
  }
  return envelope(trailersFlag, Buffer.from(text, "latin1"));
}
