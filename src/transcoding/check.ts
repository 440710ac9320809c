import type { DescMethod } from "@bufbuild/protobuf";
import { Code, ConnectError } from "@connectrpc/connect";
import { ErrorInfoSchema } from "../../gen/google/rpc/error_details_pb.ts";
import { Fault } from "./fault.ts";
import { parseJson } from "./json/parse.ts";
import { createJsonReaders } from "./json/read.ts";
import { methodRule } from "./rules.ts";

/**
 * Checks the JSON form of a method's request message, as other protocols carry it: strictly, by the
 * proto3 JSON mapping. Throws a ConnectError INVALID_ARGUMENT that says what does not fit and where, and
 * repeats no value. A field that is not known is refused, lest a misspelt one be taken for an absent one.
 */
export function createJsonCheck(method: DescMethod, maxDepth: number): (bytes: Uint8Array) => void {
  const { invalid, ignoreUnknown } = methodRule(method);
  const read = createJsonReaders({ ignoreUnknown, plain: true }).message(method.input);
  return (bytes) => {
    try {
      read(parseJson(bytes, maxDepth), []);
    } catch (error) {
      if (error instanceof Fault) {
        const reason = error.reason ?? (invalid === "" ? "invalid_argument" : invalid);
        throw new ConnectError(error.message, Code.InvalidArgument, undefined, [
          { desc: ErrorInfoSchema, value: { reason } },
        ]);
      }
      throw error;
    }
  };
}
