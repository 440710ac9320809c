import { type BinaryReadOptions, type DescMessage, fromBinary, type Message } from "@bufbuild/protobuf";
import { FlowgateError } from "../../errors.ts";

/** Of JSON. Binary decoders nest no deeper either. */
export const maxDepth = 100;

/** Decodes the binary form of a message. Throws a FlowgateError `invalid_request`. */
export function createProtoDecoder(
  desc: DescMessage,
  binaryOptions: Partial<BinaryReadOptions> = {},
): (bytes: Uint8Array) => Message {
  // A kept unknown field of two bytes would cost a hundred times its size.
  const options = { readUnknownFields: false, ...binaryOptions };
  return (bytes) => {
    try {
      return fromBinary(desc, bytes, options);
    } catch {
      throw undecodable();
    }
  };
}

export function undecodable(): FlowgateError {
  return new FlowgateError("invalid_request", "the request message can't be decoded");
}
