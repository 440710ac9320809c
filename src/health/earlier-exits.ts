import { timestampMs } from "@bufbuild/protobuf/wkt";
import { type Condition, ConditionKind, RuntimeStateReason } from "../../gen/flowgate/v1/health_pb.ts";
import { enumWord } from "@flowgate/base/enums";
import type { Journal } from "../events/journal.ts";
import type { ExitReason } from "../store/health.ts";
import { type Exit, restartedForMs } from "./health.ts";

/** The exits within the last hour that an earlier process of the service has recorded in the last event of the health of this runtime. */
export async function readEarlierExits(journal: Pick<Journal, "list">, runtime: string): Promise<readonly Exit[]> {
  const fromMs = Date.now() - restartedForMs;
  const { events } = await journal.list({ cases: new Set(["health"] as const) }, { limit: 100, fromMs });
  const last = events.find((event) => event.runtime === runtime);
  return last?.kind.case === "health" ? last.kind.value.conditions.flatMap((condition) => toExits(condition)) : [];
}

/** The times of exits between the first and the last one are not recorded. */
function toExits({ kind, since, lastTime, count, reason, message, ...place }: Condition): Exit[] {
  const word = enumWord(RuntimeStateReason, reason) as ExitReason | undefined;
  if (kind !== ConditionKind.RESTARTED || since === undefined || lastTime === undefined || word === undefined) {
    return [];
  }
  const { nodeId, nodeType, nodeName, flowId, flowLabel, subflowPath, line } = place;
  const node = { nodeId, nodeType, nodeName, flowId, flowLabel, subflowPath };
  const fault = nodeId === "" ? undefined : { node, ...(line > 0 && { line }), isCertain: false };
  const [firstMs, lastMs] = [timestampMs(since), timestampMs(lastTime)];
  return Array.from({ length: count }, (_, at) => ({
    atMs: at === count - 1 ? lastMs : firstMs,
    reason: word,
    message,
    fault,
  }));
}
