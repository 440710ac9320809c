import type { MessageInitShape } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import type { ServiceImpl, HandlerContext } from "@connectrpc/connect";
import type { ProcessUsageSchema, RuntimeService } from "../../gen/flowgate/v1/runtime_pb.ts";
import type { AuditRecorder } from "../auth/audit-recorder.ts";
import { originOf } from "../auth/caller.ts";
import type { OutcomeRecorder } from "../deployments/outcome-recorder.ts";
import { outcomes } from "../deployments/revision-message.ts";
import { FlowgateError } from "@flowgate/flows/errors";
import { type FlowNode, containerIdOf, nameOf, quoteInput } from "@flowgate/flows";
import { toHealth } from "../health/message.ts";
import type { HealthMonitor } from "../health/monitor.ts";
import type { NodeStates } from "../events/node-states.ts";
import { type FlowStats, injectNode, type Runtime, type RuntimeState } from "@flowgate/runtime";
import { isRunnerState, namesOfRunning } from "../replicas/runs.ts";
import type { Cluster } from "../store/cluster.ts";
import type { DesiredStateStore } from "../store/desired-state.ts";
import type { FlowStore } from "../store/flow-store.ts";
import type { DiskSpace, OwnUsage } from "../telemetry/own-usage.ts";
import type { ProcessMeasurement } from "@flowgate/base/process-meter";
import { traceKey } from "../telemetry/trace.ts";
import { runtimeTimeoutMs } from "./deployment-request.ts";
import { listNodeStatuses } from "./node-statuses.ts";
import { assertRunner, nameOfSelf, type Runner, callRunner } from "./runner.ts";
import { toRuntime } from "./settings.ts";

type RuntimeServiceOptions = ControlOptions &
  InjectOptions & {
    /** The runtime of this replica. */
    readonly runtime: Pick<Runtime, "restart">;
    readonly store: Pick<FlowStore, "active" | "findEntry">;
    /** The states of its nodes. */
    readonly nodes: Pick<NodeStates, "all" | "countFailing">;
    /** The measurements of its process; undefined without metrics. */
    readonly stats: Pick<FlowStats, "process"> | undefined;
    readonly usage: Pick<OwnUsage, "process">;
    readonly disk: () => Promise<DiskSpace | undefined>;
    readonly monitor: Pick<HealthMonitor, "health" | "outcome">;
  };

export function runtimeService(options: RuntimeServiceOptions): ServiceImpl<typeof RuntimeService> {
  const { store, desired, audit, runtime, cluster, nodes, stats, usage, monitor } = options;
  return {
    ...controlMethods(options),
    ...injectMethods(options),

    async getRuntime() {
      const disk = await options.disk();
      const { rev } = store.active();
      // What is in memory is known without the store.
      const { restarts } = (await store.findEntry(rev).catch(() => undefined)) ?? {};
      const replica = nameOfSelf(cluster);
      const { isStarted, by, atMs } = desired.current();
      const health = monitor.health();
      const { state, missingTypes } = monitor.outcome(health);
      const flows = stats?.process();
      return {
        runtime: toRuntime(runtime.status()),
        rev,
        outcome: outcomes[state],
        missingTypes: [...missingTypes],
        started: isStarted,
        ...(!isStarted && { stoppedBy: by ?? "", ...(atMs !== undefined && { stopTime: timestampFromMs(atMs) }) }),
        failingNodes: nodes.countFailing(),
        ...(replica !== undefined && { replica }),
        ...(flows !== undefined && { runtimeProcess: toProcessUsage(flows) }),
        serviceProcess: toProcessUsage(usage.process()),
        ...(disk !== undefined && { disk }),
        health: toHealth(health),
        ...(restarts !== undefined && { restarts }),
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

type ControlOptions = {
  readonly store: Pick<FlowStore, "active">;
  readonly desired: DesiredStateStore;
  readonly audit: Pick<AuditRecorder, "write">;
  /** The runtime of this replica. */
  readonly runtime: Pick<Runtime, "status" | "onChange">;
  readonly allRuntimes: Pick<Runtime, "apply">;
  readonly outcomes: Pick<OutcomeRecorder, "recordStop">;
  readonly cluster: Pick<Cluster, "replicas" | "onChange"> | undefined;
};

/** The states in which a process has ended by itself: a start does not wait until the runtime starts the next one, if it does. */
const endedStates: ReadonlySet<RuntimeState> = new Set(["safe", "restarting"]);

/** Starting and stopping the flows on all replicas, which follow the stored state. */
export function controlMethods(
  options: ControlOptions,
): Pick<ServiceImpl<typeof RuntimeService>, "startFlows" | "stopFlows"> {
  const { store, desired, audit, runtime, allRuntimes } = options;
  return {
    async startFlows(_request, context) {
      const before = desired.current();
      const entry = { kind: "flows_started", origin: originOf(context), subject: store.active().rev } as const;
      const { atMs } = await desired.set(true, entry);
      const isStored = !before.isStarted || atMs !== before.atMs;
      if (!isStored && endedStates.has(runtime.status().state)) {
        audit.write(entry);
      }
      const active = store.active();
      // Restarts no nodes if the flows run already.
      const { outcome, missingTypes } = await allRuntimes.apply(active, "nodes", context.values.get(traceKey), {
        withinMs: runtimeTimeoutMs(context.timeoutMs()),
        signal: context.signal,
      });
      return { rev: active.rev, outcome: outcomes[outcome], missingTypes: [...missingTypes] };
    },

    async stopFlows(_request, context) {
      await desired.set(false, { kind: "flows_stopped", origin: originOf(context), subject: store.active().rev });
      await options.outcomes.recordStop();
      const runningReplicas = await untilEnded(options, runtimeTimeoutMs(context.timeoutMs()), context.signal);
      return { rev: store.active().rev, runningReplicas, started: desired.current().isStarted };
    },
  };
}

/** Longer than a process may take to end, and than a replica that has failed is listed. */
const endLimitMs = 30_000;

/**
 * Resolves when the flows of all replicas have ended, or are to run again. Otherwise, with the names of the replicas whose flows have not
 * ended in time.
 */
async function untilEnded(
  { runtime, cluster, desired }: Pick<ControlOptions, "runtime" | "cluster" | "desired">,
  withinMs = endLimitMs,
  signal: AbortSignal,
): Promise<string[]> {
  const { promise, resolve } = Promise.withResolvers<string[]>();
  const running = (): string[] => namesOfRunning(cluster?.replicas() ?? []);
  const check = (): void => {
    const hasEnded = !isRunnerState(runtime.status().state) && running().length === 0;
    if (hasEnded || desired.current().isStarted) {
      resolve([]);
    }
  };
  using subscriptions = new DisposableStack();
  subscriptions.use(runtime.onChange(check));
  subscriptions.use(desired.onChange(check));
  if (cluster !== undefined) {
    subscriptions.use(cluster.onChange(check));
  }
  const timer = setTimeout(() => resolve(running()), Math.min(withinMs, endLimitMs));
  subscriptions.defer(() => clearTimeout(timer));
  const abort = (): void => resolve(running());
  signal.addEventListener("abort", abort);
  subscriptions.defer(() => signal.removeEventListener("abort", abort));
  check();
  return await promise;
}

type InjectOptions = Runner & {
  readonly store: Pick<FlowStore, "active">;
  readonly audit: Pick<AuditRecorder, "record">;
};

function injectMethods(options: InjectOptions): Pick<ServiceImpl<typeof RuntimeService>, "injectNode"> {
  return {
    async injectNode({ id, message }, context: HandlerContext) {
      const { result, replica } = await callRunner(options, injectNode, { id, message }, context);
      const name = quoteInput(id);
      switch (result) {
        case "received":
          options.audit.record({ kind: "node_injected", origin: originOf(context), subject: id, detail: replica });
          return { ...(replica !== undefined && { replica }) };
        case "no_input":
          throw new FlowgateError("no_input", `the node ${name} receives no messages: use one that has an input`);
        case "unknown":
          throw explainUnknown(name, id, options.store.active().flows.nodes);
      }
    },
  };
}

/** Why a node does not run, according to the active flows. */
function explainUnknown(name: string, id: string, nodes: readonly FlowNode[]): FlowgateError {
  const node = nodes.find((each) => each.id === id);
  if (node === undefined) {
    return new FlowgateError("not_found", `there is no node ${name} in the active flows`);
  }
  if (node.type === "tab" || node.type === "subflow" || node.type === "group") {
    return new FlowgateError("no_input", `${name} is a ${node.type}, which receives no messages: use the id of a node`);
  }
  const container = nodes.find((each) => each.id === containerIdOf(node));
  if (container?.type === "subflow") {
    return new FlowgateError(
      "not_found",
      `the node ${name} is in a subflow, whose nodes run in its instances: use the id of an instance, or "<id of the instance>-<id of the node>"`,
    );
  }
  if (node["d"] === true) {
    return new FlowgateError("node_disabled", `the node ${name} is disabled: enable it with a deployment`);
  }
  if (container?.["disabled"] === true) {
    const flow = quoteInput(nameOf(container) ?? container.id);
    return new FlowgateError("node_disabled", `the flow ${flow} of the node is disabled: enable it first`);
  }
  return new FlowgateError(
    "flows_not_running",
    `the node ${name} does not run: the active flows could not be started, or not yet`,
  );
}
