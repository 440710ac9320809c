import type { DescMethod, Registry } from "@bufbuild/protobuf";
import { Code, ConnectError } from "@connectrpc/connect";
import { ErrorInfoSchema } from "../../gen/google/rpc/error_details_pb.ts";
import { RequestError } from "../http/request-error.ts";
import { replaceIntegers, wideIntegersOf } from "./exact.ts";
import { messageHoldsInt64 } from "./int64.ts";
import { parseJson } from "./parse.ts";
import { createJsonReaders } from "./read.ts";
import { createReachableRegistry } from "../schema/registry.ts";
import { methodRule } from "../schema/rules.ts";

/**
 * Creates a strict check of a method's request message in the proto3 JSON mapping, for servers of other protocols.
 * It throws a ConnectError INVALID_ARGUMENT that describes what is wrong and where, without repeating a value. Unknown
 * fields are rejected, so that a misspelt field is not mistaken for an absent one. `registry` contains the messages that
 * a google.protobuf.Any can contain, as in the gateway's option.
 *
 * The check returns the text of the bytes, in which 64-bit integers beyond 2^53 are strings, so that the next reader does
 * not round them. It can be used as the `textDecoder` of Connect's JSON options.
 */
export function createJsonCheck(
  method: DescMethod,
  maxDepth: number,
  registry: Registry = createReachableRegistry([method]),
): (bytes: Uint8Array) => string {
  const { invalid, ignoreUnknown } = methodRule(method);
  const read = createJsonReaders({ ignoreUnknown, registry, plain: true }).message(method.input);
  const exact = messageHoldsInt64(method.input);
  return (bytes) => {
    try {
      const document = parseJson(bytes, maxDepth, { exact });
      read(document, []);
      const text = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("utf8");
      return replaceIntegers(text, wideIntegersOf(document) ?? [], ({ digits, isRounded }) =>
        isRounded ? digits : `"${digits}"`,
      );
    } catch (error) {
      if (error instanceof RequestError) {
        const reason = error.reason ?? (invalid === "" ? "invalid_argument" : invalid);
        throw new ConnectError(error.message, Code.InvalidArgument, undefined, [
          { desc: ErrorInfoSchema, value: { reason } },
        ]);
      }
      throw error;
    }
  };
}
