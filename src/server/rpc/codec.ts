import {
  type BinaryReadOptions,
  type BinaryWriteOptions,
  type DescMethod,
  type Message,
  type Registry,
  toBinary,
} from "@bufbuild/protobuf";
import { createJsonCodec, deferMessage } from "@flowgate/transcoding/server";
import { createProtoDecoder, maxDepth } from "./decode.ts";
import { envelope } from "./envelope.ts";

/** The messages of a method in one of their two forms. */
export type Codec = {
  readonly name: "proto" | "json";
  /** Throws a RequestError or a FlowgateError; a deferred message throws them when it is read. */
  readonly decode: (bytes: Uint8Array) => Message;
  readonly encode: (message: Message) => Uint8Array<ArrayBuffer>;
  /** The encoded message in an envelope, not compressed. */
  readonly envelope: (message: Message) => Buffer;
};

export type Codecs = { readonly proto: Codec; readonly json: Codec };

/**
 * A frozen message is encoded once, in each form. `registry` has what a google.protobuf.Any may hold. `isDeferred`: request
 * messages are decoded when they are read.
 */
export function createCodecs(
  method: DescMethod,
  registry: Registry,
  binaryOptions?: Partial<BinaryReadOptions & BinaryWriteOptions>,
  isDeferred = false,
): Codecs {
  const json = createJsonCodec(method, maxDepth, registry);
  const decodeProto = createProtoDecoder(method.input, binaryOptions);
  const deferring = (kind: Codec["name"], decode: Codec["decode"]): Codec["decode"] =>
    isDeferred ? (bytes) => deferMessage(method.input, { bytes, format: { kind } }, decode) : decode;
  return {
    proto: createCodec("proto", deferring("proto", decodeProto), (message) =>
      toBinary(method.output, message, binaryOptions),
    ),
    json: createCodec("json", deferring("json", json.decode), (message) => Buffer.from(json.encode(message))),
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
