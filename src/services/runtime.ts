import type { MessageInitShape } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import type { ServiceImpl } from "@connectrpc/connect";
import type { ProcessUsageSchema, RuntimeService } from "../../gen/flowgate/v1/runtime_pb.ts";
import { originOf } from "../auth/caller.ts";
import { outcomes } from "../deployments/revision-message.ts";
import type { NodeStates } from "../live/node-states.ts";
import type { FlowStats } from "../runtime/flow-stats.ts";
import { type Runtime, pending } from "../runtime/runtime.ts";
import type { OwnUsage } from "../telemetry/own-usage.ts";
import type { ProcessMeasurement } from "../telemetry/process-meter.ts";
import { traceKey } from "../telemetry/trace.ts";
import { runtimeTimeoutMs } from "./deployment-request.ts";
import { type InjectOptions, injectMethods } from "./inject.ts";
import { listNodeStatuses } from "./node-statuses.ts";
import { assertRunner, nameOfSelf } from "./runner.ts";
import { type ControlOptions, controlMethods } from "./runtime-control.ts";
import { toRuntime } from "./settings.ts";

type RuntimeServiceOptions = ControlOptions &
  InjectOptions & {
    /** That of this replica. */
    readonly runtime: Pick<Runtime, "restart" | "lastResult">;
    /** What its nodes do. */
    readonly nodes: Pick<NodeStates, "all" | "countFailing">;
    /** What its process measures; undefined without metrics. */
    readonly stats: Pick<FlowStats, "process"> | undefined;
    readonly usage: OwnUsage;
  };

export function runtimeService(options: RuntimeServiceOptions): ServiceImpl<typeof RuntimeService> {
  const { store, desired, audit, runtime, cluster, nodes, stats, usage } = options;
  return {
    ...controlMethods(options),
    ...injectMethods(options),

    async getRuntime() {
      const disk = await usage.disk();
      const { rev } = store.active();
      const replica = nameOfSelf(cluster);
      const { isStarted, by, atMs } = desired.current();
      const last = runtime.lastResult();
      const { outcome, missingTypes } = last?.revision.rev === rev ? last.result : pending;
      const flows = stats?.process();
      return {
        runtime: toRuntime(runtime.status()),
        rev,
        outcome: outcomes[isStarted ? outcome : "stopped"],
        missingTypes: [...missingTypes],
        started: isStarted,
        ...(!isStarted && { stoppedBy: by ?? "", ...(atMs !== undefined && { stopTime: timestampFromMs(atMs) }) }),
        failingNodes: nodes.countFailing(),
        ...(replica !== undefined && { replica }),
        ...(flows !== undefined && { runtimeProcess: toProcessUsage(flows) }),
        serviceProcess: toProcessUsage(usage.process()),
        ...(disk !== undefined && { disk }),
      };
    },

    listNodeStatuses(request) {
      // Stopped flows have no nodes.
      if (desired.current().isStarted) {
        assertRunner(options);
      }
      return listNodeStatuses(nodes.all(), request);
    },

    async restartRuntime({ clearFiles }, context) {
      assertRunner(options);
      const active = store.active();
      const replica = nameOfSelf(cluster);
      // A restart changes nothing in the store, and must be possible while that can't be written.
      const detail = [replica, clearFiles ? "files removed" : undefined]
        .filter((part) => part !== undefined)
        .join(", ");
      audit.write({
        kind: "runtime_restarted",
        origin: originOf(context),
        subject: active.rev,
        detail: detail || undefined,
      });
      const { outcome, missingTypes } = await runtime.restart(active, context.values.get(traceKey), {
        withinMs: runtimeTimeoutMs(context.timeoutMs()),
        signal: context.signal,
        clearFiles,
      });
      return {
        rev: active.rev,
        outcome: outcomes[outcome],
        missingTypes: [...missingTypes],
        ...(replica !== undefined && { replica }),
      };
    },
  };
}

function toProcessUsage({
  heapBytes,
  heapLimitBytes,
  rssBytes,
  lagSeconds,
  cpuSeconds,
  seconds,
}: ProcessMeasurement): MessageInitShape<typeof ProcessUsageSchema> {
  return {
    heapBytes,
    heapLimitBytes,
    rssBytes,
    ...(seconds > 0 && { eventLoopDelayMs: lagSeconds * 1_000, cpuShare: cpuSeconds / seconds }),
  };
}
