import { type DescMethod, fromBinary, type Message, type Registry, toBinary } from "@bufbuild/protobuf";
import { createJsonCodec } from "../../transcoding/core.ts";
import { undecodable } from "./compression.ts";

/** The messages of a method in one of their two forms. */
export type Codec = {
  readonly name: "proto" | "json";
  /** Throws a Fault or a FlowgateError. */
  readonly decode: (bytes: Uint8Array) => Message;
  readonly encode: (message: Message) => Uint8Array;
};

export type Codecs = { readonly proto: Codec; readonly json: Codec };

/** What a binary decoder takes, too. */
const maxDepth = 100;

/** A frozen message is encoded once, in each form. `registry` has what a google.protobuf.Any may hold. */
export function createCodecs(method: DescMethod, registry: Registry): Codecs {
  const json = createJsonCodec(method, maxDepth, registry);
  return {
    proto: {
      name: "proto",
      decode(bytes) {
        try {
          // Kept, an unknown field of two bytes would cost a hundred times its size.
          return fromBinary(method.input, bytes, { readUnknownFields: false });
        } catch {
          throw undecodable();
        }
      },
      encode: encodeOnce((message) => toBinary(method.output, message)),
    },
    json: { name: "json", decode: json.decode, encode: encodeOnce((message) => Buffer.from(json.encode(message))) },
  };
}

function encodeOnce(encode: (message: Message) => Uint8Array): (message: Message) => Uint8Array {
  const encoded = new WeakMap<Message, Uint8Array>();
  return (message) => {
    if (!Object.isFrozen(message)) {
      return encode(message);
    }
    let bytes = encoded.get(message);
    if (bytes === undefined) {
      bytes = encode(message);
      encoded.set(message, bytes);
    }
    return bytes;
  };
}
