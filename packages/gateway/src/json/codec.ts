import {
  type DescMethod,
  type Message,
  type Registry,
  createRegistry,
  type DescMessage,
  type MessageShape,
} from "@bufbuild/protobuf";
import { RequestError } from "../http/request-error.ts";
import { messageHoldsInt64 } from "./int64.ts";
import { type CompleteJsonOptions, canonicalJson, type JsonOptions } from "./json-options.ts";
import { parseJson, type PrototypeKeys } from "./parse.ts";
import { createJsonReaders } from "./read.ts";
import { formatJson } from "./well-formed.ts";
import { messageWriter } from "./write.ts";
import { methodRule } from "../schema/rules.ts";

/** The proto3 JSON mapping of a method's messages, without the gateway's options for HTTP. */
export type JsonCodec = {
  /** Throws a RequestError with the problem and its place, without repeating a value. */
  readonly decode: (bytes: Uint8Array) => Message;
  readonly encode: (message: Message) => string;
};

export type JsonCodecOptions = {
  readonly maxDepth: number;
  /** The messages that a google.protobuf.Any can contain. */
  readonly registry: Registry;
  readonly prototypeKeys: PrototypeKeys;
  /** Default: as in the proto3 JSON mapping. */
  readonly jsonOptions?: CompleteJsonOptions;
};

/** Compiles the JSON codec of a method: decodes its requests and encodes its responses. */
export function createJsonCodec(
  method: DescMethod,
  { maxDepth, registry, prototypeKeys, jsonOptions }: JsonCodecOptions,
): JsonCodec {
  const { invalid, ignoreUnknown } = methodRule(method);
  const read = createJsonReaders({
    ignoreUnknown: ignoreUnknown || jsonOptions?.ignoreUnknownFields === true,
    ignoreEnumCase: jsonOptions?.ignoreEnumCase === true,
    registry,
    plain: true,
  }).message(method.input);
  const parsing = { exact: messageHoldsInt64(method.input), prototypeKeys };
  const write = messageWriter(method.output, registry, "plain", jsonOptions);
  return {
    decode(bytes) {
      try {
        return read(parseJson(bytes, maxDepth, parsing), []) as Message;
      } catch (error) {
        if (error instanceof RequestError && error.reason === undefined) {
          throw new RequestError(error.status, invalid === "" ? "invalid_argument" : invalid, error.message);
        }
        throw error;
      }
    },
    encode: (message) => formatJson(write(message)),
  };
}

export type JsonEncoderOptions = {
  /** "http": as in the bodies of REST, with the options of fields for HTTP. "json": as in RPCs. Default: "http". */
  readonly format?: "http" | "json";
  /** The messages that a google.protobuf.Any can contain. Default: none. */
  readonly registry?: Registry;
  /** The gateway's JSON options. Default: none. */
  readonly jsonOptions?: JsonOptions;
};

/**
 * Compiles a function that encodes messages as JSON in UTF-8, in the form of responses: for `setEncodedField` and
 * `createEncodedMessage`, on any thread.
 */
export function createJsonEncoder<Desc extends DescMessage>(
  desc: Desc,
  { format = "http", registry = createRegistry(), jsonOptions = {} }: JsonEncoderOptions = {},
): (message: MessageShape<Desc>) => Uint8Array<ArrayBuffer> {
  const mode = format === "http" ? "response" : "plain";
  const write = messageWriter(desc, registry, mode, { ...canonicalJson, ...jsonOptions });
  return (message) => new TextEncoder().encode(formatJson(write(message)));
}
