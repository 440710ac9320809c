import {
  type BinaryReadOptions,
  type BinaryWriteOptions,
  type DescMethod,
  type Message,
  type Registry,
  toBinary,
} from "@bufbuild/protobuf";
import { getEncodedMessage } from "@flowgate/gateway";
import { createJsonCodec, deferMessage } from "@flowgate/gateway/server";
import { maxDepth } from "../max-depth.ts";
import type { Compression } from "./compression.ts";
import { createProtoDecoder } from "./decode.ts";
import { compressedFlag, envelope } from "./envelope.ts";

/** Encodes and decodes the messages of a method in one of the two formats. */
export type Codec = {
  readonly name: "proto" | "json";
  /** Throws a RequestError or a FlowgateError; a deferred message throws on first access. */
  readonly decode: (bytes: Uint8Array) => Message;
  readonly encode: (message: Message) => Uint8Array<ArrayBuffer>;
  /** The encoded message in an envelope, uncompressed. */
  readonly envelope: (message: Message) => Buffer;
  /** The encoded message, compressed. */
  readonly compress: (message: Message, compression: Compression) => Promise<Uint8Array>;
  /** The encoded message in an envelope, compressed. */
  readonly compressEnvelope: (message: Message, compression: Compression) => Promise<Buffer>;
};

export type Codecs = { readonly proto: Codec; readonly json: Codec };

/**
 * Frozen messages are encoded only once per format, and compressed only once per coding, so that responses share their memory. `registry` has the types that a google.protobuf.Any may contain.
 * `isDeferred`: request messages are decoded on first access.
 */
export function createCodecs(
  method: DescMethod,
  registry: Registry,
  binaryOptions?: Partial<BinaryReadOptions & BinaryWriteOptions>,
  isDeferred = false,
): Codecs {
  const json = createJsonCodec(method, { maxDepth, registry, prototypeKeys: "reject" });
  const decodeProto = createProtoDecoder(method, binaryOptions);
  const withDeferral = (kind: Codec["name"], decode: Codec["decode"]): Codec["decode"] =>
    isDeferred ? (bytes) => deferMessage(method.input, { bytes, format: { kind } }, decode) : decode;
  return {
    proto: createCodec("proto", withDeferral("proto", decodeProto), (message) =>
      toBinary(method.output, message, binaryOptions),
    ),
    json: createCodec("json", withDeferral("json", json.decode), (message) => Buffer.from(json.encode(message))),
  };
}

function createCodec(name: Codec["name"], decode: Codec["decode"], encode: Codec["encode"]): Codec {
  const cachedEncode = cacheFrozen(
    (message) => (getEncodedMessage(message, name) as Uint8Array<ArrayBuffer> | undefined) ?? encode(message),
  );
  const compressed = cacheCompressed(cachedEncode, (bytes) => bytes);
  const compressedEnvelope = cacheCompressed(cachedEncode, (bytes) => envelope(compressedFlag, bytes));
  return {
    name,
    decode,
    encode: cachedEncode,
    envelope: cacheFrozen((message) => envelope(0, cachedEncode(message))),
    compress: (message, compression) => compressed(message)(compression),
    compressEnvelope: (message, compression) => compressedEnvelope(message)(compression),
  };
}

/** Caches the result for each frozen message. */
function cacheFrozen<T>(compute: (message: Message) => T): (message: Message) => T {
  const cache = new WeakMap<Message, T>();
  return (message) => {
    if (!Object.isFrozen(message)) {
      return compute(message);
    }
    let result = cache.get(message);
    if (result === undefined) {
      result = compute(message);
      cache.set(message, result);
    }
    return result;
  };
}

/** Caches the compressed form of each frozen message in each coding. */
function cacheCompressed<T>(
  encode: Codec["encode"],
  wrap: (compressed: Uint8Array) => T,
): (message: Message) => (compression: Compression) => Promise<T> {
  return cacheFrozen((message) => {
    const results = new Map<Compression, Promise<T>>();
    return (compression) => {
      const result = results.get(compression) ?? compression.compress(encode(message)).then(wrap);
      results.set(compression, result);
      return result;
    };
  });
}
