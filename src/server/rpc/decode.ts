import {
  type BinaryReadOptions,
  type DescMessage,
  type DescMethod,
  fromBinary,
  type Message,
} from "@bufbuild/protobuf";
import { formatPath } from "@flowgate/gateway/json-path";
import { methodRule, RequestError } from "@flowgate/gateway/server";
import { FlowgateError } from "../../errors.ts";
import { maxDepth } from "../max-depth.ts";
import { locateDepth } from "./locate-depth.ts";

/**
 * Decodes the binary form of a method's request message. Throws a FlowgateError `invalid_request`, or a RequestError with the JSON
 * path of a message that is nested too deep.
 */
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
            `${path.slice(0, 200)}: nested deeper than ${maxDepth} levels`,
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
    const path = locateDepth(desc, bytes, maxDepth);
    return path && formatPath(path);
  } catch {
    return undefined;
  }
}

export function undecodable(): FlowgateError {
  return new FlowgateError("invalid_request", "the request message can't be decoded");
}
