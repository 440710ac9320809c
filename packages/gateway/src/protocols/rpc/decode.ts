import {
  type BinaryReadOptions,
  type DescMessage,
  type DescMethod,
  fromBinary,
  type Message,
} from "@bufbuild/protobuf";
import { formatPath } from "../../json/path.ts";
import { RequestError } from "../../http/request-error.ts";
import { methodRule } from "../../schema/rules.ts";
import { undecodable } from "./compression.ts";
import { locateDepth } from "./locate-depth.ts";

/** The nesting limit of protobuf-es. */
const MAX_DEPTH = 100;

/** Decodes the binary form of a method's request message. Throws a RequestError, with the JSON path of a message that is nested too deep. */
export function createProtoDecoder(
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
            {
              repeatsInput: true,
            },
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
