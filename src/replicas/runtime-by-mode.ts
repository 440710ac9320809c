import type { Logger } from "pino";
import type { Cluster, ReplicaStatus } from "../store/cluster.ts";
import {
  findBoundary,
  noRuntime,
  type RuntimeLog,
  type RuntimeOptions,
  type Runtime,
  pending,
  StateReporter,
  openRuntime,
} from "@flowgate/runtime";
import { openLeaseKeeper } from "./lease-keeper.ts";
import { openLeasedRuntime } from "./leased-runtime.ts";
import { selfHandsOver } from "./runs.ts";

type Mode = {
  readonly mode: ReplicaStatus["mode"];
  readonly leaseMs: number;
  /** Undefined: there is no other replica. */
  readonly cluster: Cluster | undefined;
  /** The sequence number of the active revision. */
  readonly activeSeq: () => number;
  /** True if modules are being installed without which flows must not be started. */
  readonly isPreparing: () => boolean;
  /** The log of the service. */
  readonly log: Logger;
};

/** Opens the runtime of this replica according to `runtime.mode`. */
export function openRuntimeByMode(
  options: RuntimeOptions & { readonly log: RuntimeLog },
  { mode, leaseMs, cluster, activeSeq, isPreparing, log }: Mode,
): Runtime {
  if (mode === "none") {
    return createDisabledRuntime(options.log);
  }
  if (mode === "each" || cluster === undefined) {
    return openRuntime(options);
  }
  // Now, so that the service does not start without a boundary that is required.
  const launcher = findBoundary(options);
  return openLeasedRuntime({
    keeper: openLeaseKeeper({
      cluster,
      leaseMs,
      isPreparing,
      yields: () => selfHandsOver(cluster.replicas(), activeSeq()),
      log,
    }),
    open: (fence) => openRuntime({ ...options, launcher, fence }),
    boundary: launcher,
    ...(options.modulesProblem && { modulesProblem: options.modulesProblem }),
    log: options.log,
  });
}

/** Creates a runtime that never runs flows and has no process. */
function createDisabledRuntime(log: RuntimeLog): Runtime {
  const reporter = new StateReporter(log);
  reporter.set("disabled");

  return {
    apply: async () => pending,
    restart: async () => pending,
    applyModules: async () => ({ ...pending, isRestarted: false }),
    async call() {
      throw noRuntime("this replica never runs flows (runtime.mode: none)");
    },
    connectAdmin() {
      throw noRuntime("this replica never runs flows (runtime.mode: none)");
    },
    degrade() {},
    reloadModules() {},
    status: () => reporter.status({ httpPort: 0, boundary: undefined }),
    processStats: () => ({ restarts: 0, heartbeatAgeMs: 0 }),
    processId: () => undefined,
    nodeTypes: () => undefined,
    lastResult: () => undefined,
    incompleteSeq: () => undefined,
    onChange: (listener) => reporter.onChange(listener),
    onResult: () => ({ [Symbol.dispose]() {} }),
    release() {},
    kill() {},
    async [Symbol.asyncDispose]() {
      reporter.set("stopped");
    },
  };
}
