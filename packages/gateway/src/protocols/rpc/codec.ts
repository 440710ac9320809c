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
import { getEncodedMessage } from "../../call/encoded-message.ts";
import { createJsonCodec, type JsonCodecOptions } from "../../json/codec.ts";
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
  /** Compresses the encoded message. */
  readonly compress: Compress;
  /** The same, in an envelope. */
  readonly compressEnvelope: Compress;
};

/** `bytes` are those that `encode` has returned for the message. */
type Compress = (message: Message, bytes: Uint8Array, compression: Compression) => Promise<Uint8Array>;

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
  return {
    name,
    decode,
    encode: cachedEncode,
    envelope: cacheFrozen((message) => envelope(0, cachedEncode(message))),
    compress: cacheCompressed((bytes) => bytes),
    compressEnvelope: cacheCompressed((bytes) => envelope(compressedFlag, bytes)),
  };
}

/** Caches the compressed form of each frozen message in each coding. */
function cacheCompressed(wrap: (compressed: Uint8Array) => Uint8Array): Compress {
  const resultsOf = cacheFrozen(() => new Map<Compression, Promise<Uint8Array>>());
  return (message, bytes, compression) => {
    const results = resultsOf(message);
    const result = results.get(compression) ?? compression.compress(bytes).then(wrap);
    results.set(compression, result);
    return result;
  };
}
