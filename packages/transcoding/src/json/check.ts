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
 * Checks the JSON form of a method's request message, as other protocols carry it: strictly, by the
 * proto3 JSON mapping. Throws a ConnectError INVALID_ARGUMENT that says what does not fit and where, and
 * repeats no value. A field that is not known is refused, lest a misspelt one be taken for an absent one. `registry`
 * has what a google.protobuf.Any may hold, as the transcoder's option. Gives the text that is to be read: that of the
 * bytes, but where a 64-bit integer in it is beyond 2^53, it is a string, which no reader rounds. So it can be the
 * `textDecoder` of Connect's JSON options.
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
      const document = parseJson(bytes, maxDepth, [], exact);
      read(document, []);
      return replaceIntegers(bytes, wideIntegersOf(document) ?? [], ({ digits, isRounded }) =>
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
