import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import type { ServiceImpl } from "@connectrpc/connect";
import type { RuntimeService } from "../../gen/flowgate/v1/runtime_pb.ts";
import type { AuditRecorder } from "../auth/audit-recorder.ts";
import { originOf } from "../auth/caller.ts";
import { outcomes } from "../deployments/revision-message.ts";
import { FlowgateError } from "../errors.ts";
import type { NodeStates } from "../live/node-states.ts";
import { type Runtime, type RuntimeState, pending } from "../runtime/runtime.ts";
import type { Cluster } from "../store/cluster.ts";
import type { FlowStore } from "../store/flow-store.ts";
import { traceKey } from "../telemetry/trace.ts";
import { runtimeTimeoutMs } from "./deployment-request.ts";
import { listNodeStatuses } from "./node-statuses.ts";
import { assertStarted, type ControlOptions, controlMethods } from "./runtime-control.ts";
import { toRuntime } from "./settings.ts";

type RuntimeServiceOptions = {
  readonly store: Pick<FlowStore, "active">;
  readonly audit: Pick<AuditRecorder, "write">;
  /** That of this replica. */
  readonly runtime: Pick<Runtime, "restart" | "status" | "lastResult">;
  /** What its nodes do. */
  readonly nodes: Pick<NodeStates, "all" | "countFailing">;
  /** Undefined: there are no other replicas. */
  readonly cluster: Pick<Cluster, "replicas"> | undefined;
  readonly control: ControlOptions;
};

export function runtimeService({
  store,
  audit,
  runtime,
  nodes,
  cluster,
  control,
}: RuntimeServiceOptions): ServiceImpl<typeof RuntimeService> {
  const replicaName = (): string | undefined => cluster?.replicas().find(({ isSelf }) => isSelf)?.name;
  return {
    ...controlMethods(control),

    getRuntime() {
      const { rev } = store.active();
      const replica = replicaName();
      const { isStarted, by, atMs } = control.desired.current();
      const last = runtime.lastResult();
      const { outcome, missingTypes } = last?.revision.rev === rev ? last.result : pending;
      return {
        runtime: toRuntime(runtime.status()),
        rev,
        outcome: outcomes[isStarted ? outcome : "stopped"],
        missingTypes: [...missingTypes],
        started: isStarted,
        ...(!isStarted && { stoppedBy: by ?? "", ...(atMs !== undefined && { stopTime: timestampFromMs(atMs) }) }),
        failingNodes: nodes.countFailing(),
        ...(replica !== undefined && { replica }),
      };
    },

    listNodeStatuses(request) {
      const { state } = runtime.status();
      // Stopped flows have no nodes.
      if (state !== "stopped") {
        assertRunner(state);
      }
      return listNodeStatuses(nodes.all(), request);
    },

    async restartRuntime({ clearFiles }, context) {
      assertStarted(control.desired);
      assertRunner(runtime.status().state);
      const active = store.active();
      const replica = replicaName();
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

const withoutFlows: Readonly<Partial<Record<RuntimeState, string>>> = {
  disabled: "this replica never runs flows (runtime.mode: none)",
  standby: "another replica runs the flows (runtime.mode: one)",
  stopped: "the service is stopping",
};

function assertRunner(state: RuntimeState): void {
  const reason = withoutFlows[state];
  if (reason !== undefined) {
    throw new FlowgateError("no_runtime", `${reason}: send the request to a replica that runs them`);
  }
}
