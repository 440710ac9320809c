import {
  type BinaryReadOptions,
  type BinaryWriteOptions,
  type DescMethod,
  type Message,
  toBinary,
} from "@bufbuild/protobuf";
import { encodeUtf8 } from "#platform/bytes";
import { cacheFrozen } from "../../call/cache-frozen.ts";
import { deferMessage } from "../../call/deferred.ts";
import { createJsonCodec, type JsonCodecOptions } from "../../json/codec.ts";
import { getEncodedMessage } from "../rest/response/encoded-field.ts";
import type { Compression } from "./compression.ts";
import { createProtoDecoder } from "./decode.ts";
import { compressedFlag, envelope } from "./envelope.ts";

/** Encodes and decodes the messages of a method in one of the two formats. */
export type Codec = {
  readonly name: "proto" | "json";
  /** Throws a RequestError; a deferred message throws on first access. */
  readonly decode: (bytes: Uint8Array) => Message;
  readonly encode: (message: Message) => Uint8Array<ArrayBuffer>;
  /** The encoded message in an envelope, uncompressed. */
  readonly envelope: (message: Message) => Uint8Array;
  /** The encoded message, compressed. */
  readonly compress: (message: Message, compression: Compression) => Promise<Uint8Array>;
  /** The encoded message in an envelope, compressed. */
  readonly compressEnvelope: (message: Message, compression: Compression) => Promise<Uint8Array>;
};

export type Codecs = { readonly proto: Codec; readonly json: Codec };

/**
 * Frozen messages are encoded only once per format, and compressed only once per coding, so that responses share their memory.
 * `isDeferred`: request messages are decoded on first access.
 */
export function createCodecs(
  method: DescMethod,
  jsonOptions: JsonCodecOptions,
  binaryOptions?: Partial<BinaryReadOptions & BinaryWriteOptions>,
  isDeferred = false,
): Codecs {
  const json = createJsonCodec(method, jsonOptions);
  const decodeProto = createProtoDecoder(method, binaryOptions);
  const withDeferral = (kind: Codec["name"], decode: Codec["decode"]): Codec["decode"] =>
    isDeferred ? (bytes) => deferMessage(method.input, { bytes, format: { kind } }, decode) : decode;
  return {
    proto: createCodec("proto", withDeferral("proto", decodeProto), (message) =>
      toBinary(method.output, message, binaryOptions),
    ),
    json: createCodec(
      "json",
      withDeferral("json", json.decode),
      (message) => encodeUtf8(json.encode(message)) as Uint8Array<ArrayBuffer>,
    ),
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
