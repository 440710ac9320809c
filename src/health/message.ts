import type { MessageInitShape } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { ConditionKind, type HealthSchema, HealthState, RuntimeStateReason } from "../../gen/flowgate/v1/health_pb.ts";
import { enumValue } from "@flowgate/base/enums";
import { maxEventCount } from "@flowgate/runtime";
import type { Health } from "../store/health.ts";

export function toHealth({ state, conditions }: Health): MessageInitShape<typeof HealthSchema> {
  return {
    state: enumValue(HealthState, state),
    conditions: conditions.map(({ kind, sinceMs, lastMs, count, message, reason, node, line }) => ({
      kind: enumValue(ConditionKind, kind),
      since: timestampFromMs(sinceMs),
      lastTime: timestampFromMs(lastMs),
      count: Math.min(count, maxEventCount),
      message,
      ...(reason !== undefined && { reason: enumValue(RuntimeStateReason, reason) }),
      ...(node !== undefined && { ...node, subflowPath: [...(node.subflowPath ?? [])] }),
      ...(line !== undefined && { line }),
    })),
  };
}
