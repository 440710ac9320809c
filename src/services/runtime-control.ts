import type { ServiceImpl } from "@connectrpc/connect";
import type { RuntimeService } from "../../gen/flowgate/v1/runtime_pb.ts";
import type { AuditRecorder } from "../auth/audit-recorder.ts";
import { originOf } from "../auth/caller.ts";
import type { OutcomeRecorder } from "../deployments/outcome-recorder.ts";
import { outcomes as outcomeMessages } from "../deployments/revision-message.ts";
import { isRunnerState, namesOfRunning } from "../runtime/replicas/runs.ts";
import type { Runtime, RuntimeState } from "../runtime/runtime.ts";
import type { Cluster } from "../store/cluster.ts";
import type { DesiredStateStore } from "../store/desired-state.ts";
import type { FlowStore } from "../store/flow-store.ts";
import { traceKey } from "../telemetry/trace.ts";
import { runtimeTimeoutMs } from "./deployment-request.ts";

export type ControlOptions = {
  readonly store: Pick<FlowStore, "active">;
  readonly desired: DesiredStateStore;
  readonly audit: Pick<AuditRecorder, "write">;
  /** That of this replica. */
  readonly runtime: Pick<Runtime, "status" | "onChange">;
  readonly allRuntimes: Pick<Runtime, "apply">;
  readonly outcomes: Pick<OutcomeRecorder, "recordStop">;
  /** Undefined: there are no other replicas. */
  readonly cluster: Pick<Cluster, "replicas" | "onChange"> | undefined;
};

/** The states in which a process has ended by itself: a start does not wait until the runtime starts the next one, if it does. */
const endedStates: ReadonlySet<RuntimeState> = new Set(["safe", "restarting"]);

/** Starting and stopping the flows on all replicas, which follow what is stored. */
export function controlMethods(
  options: ControlOptions,
): Pick<ServiceImpl<typeof RuntimeService>, "startFlows" | "stopFlows"> {
  const { store, desired, audit, runtime, allRuntimes, outcomes } = options;
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
      return { rev: active.rev, outcome: outcomeMessages[outcome], missingTypes: [...missingTypes] };
    },

    async stopFlows(_request, context) {
      await desired.set(false, { kind: "flows_stopped", origin: originOf(context), subject: store.active().rev });
      await outcomes.recordStop();
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
