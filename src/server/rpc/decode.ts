import { type BinaryReadOptions, type DescMessage, fromBinary, type Message } from "@bufbuild/protobuf";
import { FlowgateError } from "../../errors.ts";

/** Maximum nesting depth of JSON messages, equal to the limit of binary decoders. */
export const maxDepth = 100;

/** Decodes the binary form of a message. Throws a FlowgateError `invalid_request`. */
export function createProtoDecoder(
  desc: DescMessage,
  binaryOptions: Partial<BinaryReadOptions> = {},
): (bytes: Uint8Array) => Message {
  // An unknown field of two bytes would take a hundred times its size in memory if it were kept.
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
