import {
  type BinaryReadOptions,
  type BinaryWriteOptions,
  type DescMethod,
  fromBinary,
  type Message,
  type Registry,
  toBinary,
} from "@bufbuild/protobuf";
import { createJsonCodec } from "../../transcoding/core.ts";
import { undecodable } from "./compression.ts";
import { envelope } from "./envelope.ts";

/** The messages of a method in one of their two forms. */
export type Codec = {
  readonly name: "proto" | "json";
  /** Throws a Fault or a ConnectError. */
  readonly decode: (bytes: Uint8Array) => Message;
  readonly encode: (message: Message) => Uint8Array<ArrayBuffer>;
  /** The encoded message in an envelope, not compressed. */
  readonly envelope: (message: Message) => Buffer;
};

export type Codecs = { readonly proto: Codec; readonly json: Codec };

/** Binary decoders nest no deeper either. */
const maxDepth = 100;

/** A frozen message is encoded once, in each form. `registry` has what a google.protobuf.Any may hold. */
export function createCodecs(
  method: DescMethod,
  registry: Registry,
  binaryOptions: Partial<BinaryReadOptions & BinaryWriteOptions> = {},
): Codecs {
  // A kept unknown field of two bytes would cost a hundred times its size.
  const options = { readUnknownFields: false, ...binaryOptions };
  const json = createJsonCodec(method, maxDepth, registry);
  const decode = (bytes: Uint8Array): Message => {
    try {
      return fromBinary(method.input, bytes, options);
    } catch {
      throw undecodable();
    }
  };
  return {
    proto: createCodec("proto", decode, (message) => toBinary(method.output, message, options)),
    json: createCodec("json", json.decode, (message) => Buffer.from(json.encode(message))),
  };
}

function createCodec(name: Codec["name"], decode: Codec["decode"], encode: Codec["encode"]): Codec {
  const encodeKept = once(encode);
  return { name, decode, encode: encodeKept, envelope: once((message) => envelope(0, encodeKept(message))) };
}

/** Keeps the result for each frozen message. */
function once<T>(make: (message: Message) => T): (message: Message) => T {
  const kept = new WeakMap<Message, T>();
  return (message) => {
    if (!Object.isFrozen(message)) {
      return make(message);
    }
    let made = kept.get(message);
    if (made === undefined) {
      made = make(message);
      kept.set(message, made);
    }
    return made;
  };
}
