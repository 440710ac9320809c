import {
  type BinaryReadOptions,
  type BinaryWriteOptions,
  type DescField,
  type DescMessage,
  type DescMethod,
  fromBinary,
  type Message,
  toBinary,
} from "@bufbuild/protobuf";
import { encodeUtf8 } from "#platform/bytes";
import { cacheFrozen } from "../../call/cache-frozen.ts";
import { deferMessage } from "../../call/deferred.ts";
import { getEncodedMessage } from "../../call/encoded-message.ts";
import { createJsonCodec, type JsonCodecOptions } from "../../json/codec.ts";
import { type MessageCompression, undecodable } from "./compression.ts";
import { compressedFlag, envelope } from "./envelope.ts";
import { formatPath, type JsonPath } from "../../json/path.ts";
import { RequestError } from "../../http/request-error.ts";
import { fieldRule, methodRule } from "../../schema/rules.ts";
import { BinaryReader, WireType } from "@bufbuild/protobuf/wire";

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

/** `bytes` is the result of `encode` for the message. */
type Compress = (message: Message, bytes: Uint8Array, compression: MessageCompression) => Promise<Uint8Array>;

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
  const resultsOf = cacheFrozen(() => new Map<MessageCompression, Promise<Uint8Array>>());
  return (message, bytes, compression) => {
    const results = resultsOf(message);
    const result = results.get(compression) ?? compression.compress(bytes).then(wrap);
    results.set(compression, result);
    return result;
  };
}

/** The nesting limit of protobuf-es. */
const MAX_DEPTH = 100;

/** Decodes the binary form of a method's request message. Throws a RequestError, with the JSON path of a message that is nested too deep. */
function createProtoDecoder(
  method: DescMethod,
  binaryOptions: Partial<BinaryReadOptions> = {},
): (bytes: Uint8Array) => Message {
  // An unknown field of two bytes would take a hundred times its size in memory if it were kept.
  const options = { readUnknownFields: false, ...binaryOptions };
  const { invalid } = methodRule(method);
  return (bytes) => {
    try {
      return fromBinary(method.input, bytes, options);
    } catch {
      const path = findTooDeep(method.input, bytes);
      throw path === undefined
        ? undecodable()
        : // As the JSON parser, also in the length of the path, which has a step for each level.
          new RequestError(
            400,
            invalid || "invalid_argument",
            `${path.slice(0, 200)}: nested deeper than ${MAX_DEPTH} levels`,
            { repeatsInput: true },
          );
    }
  };
}

/** The path of the first message that is nested too deep; undefined if there is none, or the bytes are no message. */
function findTooDeep(desc: DescMessage, bytes: Uint8Array): string | undefined {
  try {
    const path = locateDepth(desc, bytes, MAX_DEPTH);
    return path && formatPath(path);
  } catch {
    return undefined;
  }
}

type Level = {
  readonly desc: DescMessage;
  readonly end: number;
  /** The position at which the parent message continues. */
  readonly next: number;
  /** The way to this message from the one that contains it. */
  readonly path: JsonPath;
  /** The number of items so far of each repeated field. */
  readonly counts: Map<DescField, number>;
};

/**
 * Returns the JSON path of the first message that is nested deeper than `maxDepth` levels, counted as protobuf-es does; undefined
 * if there is none. Does not recurse, since messages can be nested as deeply as they are long.
 */
function locateDepth(root: DescMessage, bytes: Uint8Array, maxDepth: number): JsonPath | undefined {
  const reader = new BinaryReader(bytes);
  const levels: Level[] = [{ desc: root, end: reader.len, next: reader.len, path: [], counts: new Map() }];
  for (let level = levels.at(-1); level !== undefined; level = levels.at(-1)) {
    if (reader.pos >= level.end) {
      reader.pos = level.next;
      levels.pop();
      continue;
    }
    const [number, wireType] = reader.tag();
    const field = level.desc.fields.find((each) => each.number === number);
    if (field?.message === undefined || wireType !== WireType.LengthDelimited) {
      reader.skip(wireType, number);
      continue;
    }
    const length = reader.uint32();
    const next = reader.pos + length;
    const { key, end } =
      field.fieldKind === "map" ? findEntryValue(reader, next) : { key: indexOf(field, level), end: next };
    levels.push({ desc: field.message, end, next, path: [...nameOf(field), ...key], counts: new Map() });
    if (levels.length > maxDepth) {
      return levels.flatMap((each) => each.path);
    }
  }
  return undefined;
}

/** Advances to the value of a map entry, which is empty if it is absent, and may precede the key. */
function findEntryValue(reader: BinaryReader, entryEnd: number): { key: JsonPath; end: number } {
  let key = "";
  let value = { start: entryEnd, end: entryEnd };
  while (reader.pos < entryEnd) {
    const [number, wireType] = reader.tag();
    if (number === 1 && wireType === WireType.LengthDelimited) {
      key = reader.string();
    } else if (number === 2 && wireType === WireType.LengthDelimited) {
      const valueLength = reader.uint32();
      value = { start: reader.pos, end: reader.pos + valueLength };
      reader.pos += valueLength;
    } else {
      reader.skip(wireType, number);
    }
  }
  reader.pos = value.start;
  return { key: [key], end: value.end };
}

/** The JSON form of these messages has no names for their fields. */
const unnamed = new Set(["google.protobuf.Struct", "google.protobuf.Value", "google.protobuf.ListValue"]);

function nameOf(field: DescField): JsonPath {
  return fieldRule(field).inline || unnamed.has(field.parent.typeName) ? [] : [field.jsonName];
}

function indexOf(field: DescField, { counts }: Level): JsonPath {
  if (field.fieldKind !== "list") {
    return [];
  }
  const index = counts.get(field) ?? 0;
  counts.set(field, index + 1);
  return [index];
}
