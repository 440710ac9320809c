import { create, type Message } from "@bufbuild/protobuf";
import { setEncodedField } from "@flowgate/transcoding";
import { type FlowsDiff, FlowsDiffSchema } from "../../gen/flowgate/v1/diff_pb.ts";
import { toFlowsDiff } from "../analysis/diff-message.ts";
import type { DiffResult } from "../analysis/messages.ts";

/** Sets the diff of a response. It is converted when it is read, which it is not for a response of text. */
export function setDiff<T extends Message & { diff?: FlowsDiff | undefined }>(
  response: T,
  diff: DiffResult["diff"],
): T {
  if (diff instanceof Uint8Array) {
    return setEncodedField(response, "diff", diff);
  }
  let message: FlowsDiff | undefined;
  const get = (): FlowsDiff => (message ??= create(FlowsDiffSchema, toFlowsDiff(diff)));
  return Object.defineProperty(response, "diff", { enumerable: true, get });
}
