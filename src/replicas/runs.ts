import type { Cluster, Replica, ReplicaRun, ReplicaStatus } from "../store/cluster.ts";
import type { DesiredStateStore } from "../store/desired-state.ts";
import type { FlowStore } from "../store/flow-store.ts";
import type { Health } from "../store/health.ts";
import type { Revision } from "../store/revision.ts";
import {
  type DeploymentResult,
  type Runtime,
  isIncomplete,
  isRunning,
  outcomeMessage,
  pending,
  running,
  stopped,
} from "@flowgate/runtime";

type Runner = Replica & { readonly run: ReplicaRun };

const idleStates: ReadonlySet<string> = new Set(["standby", "disabled", "stopped"]);

/** True if a replica in this state of its runtime runs flows, or is going to. */
export function isRunnerState(state: ReplicaStatus["state"]): boolean {
  return !idleStates.has(state);
}

/** The replicas that run flows. */
export function runnersOf(replicas: readonly Replica[]): Runner[] {
  return replicas.filter((replica): replica is Runner => replica.run !== undefined && isRunnerState(replica.state));
}

/** The names of the replicas whose flows have not ended. */
export function namesOfRunning(replicas: readonly Replica[]): string[] {
  return replicas.filter(({ state }) => isRunnerState(state)).map(({ name }) => name);
}

/** True if a replica is going to run flows that were stopped, but has not read yet that they are to be started. */
export function awaitsStart({ isStopped = false, mode, isSelf }: Replica): boolean {
  return isStopped && mode === "each" && !isSelf;
}

/** True if none of them will run flows, so that there is nothing to wait for. */
export function isApiOnly(replicas: readonly Replica[]): boolean {
  // The list is empty until it is read for the first time.
  return replicas.length > 0 && replicas.every(({ mode }) => mode === "none");
}

/** The message with the name of the replica that it is about. */
function ofReplica({ name }: Pick<ReplicaStatus, "name">, message: string): string {
  return `${name}: ${message}`;
}

/** The message with the name of this replica, if it is known. */
export function ofSelf(replicas: readonly Replica[], message: string): string {
  const self = replicas.find(({ isSelf }) => isSelf);
  return self === undefined ? message : ofReplica(self, message);
}

/**
 * True if the lease passes from this replica to another one, which may have what this one lacks for the flows. If all lack
 * something, it stays where it is.
 */
function handsOver({ id, mode, incompleteSeq }: Replica, replicas: readonly Replica[], seq: number): boolean {
  return (
    mode === "one" &&
    incompleteSeq === seq &&
    replicas.some(
      (other) => other.id !== id && other.mode === "one" && other.state !== "stopped" && other.incompleteSeq !== seq,
    )
  );
}

/** As `handsOver` for this replica, once the others can read that something is missing here. */
export function selfHandsOver(replicas: readonly Replica[], seq: number): boolean {
  const self = replicas.find(({ isSelf }) => isSelf);
  return self !== undefined && handsOver(self, replicas, seq);
}

/** As `handsOver` for this replica, with a result that it may not have reported yet. */
export function handsOverAfter(result: DeploymentResult, replicas: readonly Replica[], seq: number): boolean {
  const self = replicas.find(({ isSelf }) => isSelf);
  return self !== undefined && isIncomplete(result) && handsOver({ ...self, incompleteSeq: seq }, replicas, seq);
}

/**
 * The result of a revision, or a newer one, on all replicas that run flows: the first failure, or if all of them run it, the first one that
 * is `degraded`, or `running`. Undefined while one has not started it or is handing it over, or if there is none.
 */
export function combineRuns(replicas: readonly Replica[], seq: number): DeploymentResult | undefined {
  const runners = runnersOf(replicas);
  for (const replica of runners) {
    const { run } = replica;
    if (run.seq >= seq && run.outcome === "failed" && !handsOver(replica, replicas, run.seq)) {
      const { outcome, missingTypes, message } = run;
      return { outcome, missingTypes, message: ofReplica(replica, message ?? outcome) };
    }
  }
  if (runners.length === 0 || !runners.every(({ run }) => run.seq >= seq && isRunning(run))) {
    return undefined;
  }
  const degraded = runners.find(({ run }) => run.outcome === "degraded");
  return degraded === undefined
    ? running
    : { outcome: "degraded", missingTypes: [], message: ofReplica(degraded, degraded.run.message ?? "degraded") };
}

/** The revision that this replica runs; undefined if it runs no flows. */
function runOf(
  runtime: Pick<Runtime, "status" | "lastResult">,
  active: Pick<Revision, "rev" | "seq">,
): ReplicaRun | undefined {
  if (!isRunnerState(runtime.status().state)) {
    return undefined;
  }
  const last = runtime.lastResult();
  if (last === undefined) {
    const { rev, seq } = active;
    return { rev, seq, outcome: "pending", message: undefined, missingTypes: [] };
  }
  const { rev, seq } = last.revision;
  const { outcome, missingTypes } = last.result;
  return { rev, seq, outcome, message: outcomeMessage(last.result), missingTypes };
}

type ResultOptions = {
  readonly runtime: Pick<Runtime, "status" | "lastResult">;
  /** Undefined: there are no other replicas. */
  readonly cluster: Pick<Cluster, "replicas"> | undefined;
  readonly desired: Pick<DesiredStateStore, "current">;
};

/**
 * The state of the active revision on all replicas that run flows: `true` if it runs; `pending` if that is not known yet, `stopped` if
 * they are to be stopped.
 */
export function resultOf(
  active: Pick<Revision, "rev" | "seq">,
  { runtime, cluster, desired }: ResultOptions,
): DeploymentResult {
  if (!desired.current().isStarted) {
    return stopped;
  }
  if (cluster !== undefined) {
    return combineRuns(cluster.replicas(), active.seq) ?? pending;
  }
  const run = runOf(runtime, active);
  const isCurrent = run?.seq === active.seq && runtime.status().state !== "starting";
  return isCurrent ? run : pending;
}

type ReportOptions = Pick<ReplicaStatus, "name" | "version" | "mode" | "address"> & {
  /** The current `ReplicaStatus.certificate`. */
  readonly certificate?: () => string | undefined;
  readonly onCertificateChange?: (listener: () => void) => void;
  /** How the flows of this replica are, and what calls a listener when that changes apart from its runtime. Absent: it is not reported. */
  readonly health?: { own(): Health; onChange(listener: () => void): Disposable };
  /** Calls the listener when modules could not be installed here, or could. */
  readonly onModulesChange?: (listener: () => void) => Disposable;
  readonly cluster: Pick<Cluster, "report">;
  readonly runtime: Pick<Runtime, "status" | "lastResult" | "incompleteSeq" | "onChange" | "onResult">;
  readonly store: Pick<FlowStore, "active">;
  readonly desired: Pick<DesiredStateStore, "current" | "onChange">;
};

/** Reports this replica to the others, now and after each change of its runtime. Disposing ends that. */
export function reportReplica(options: ReportOptions): Disposable {
  const { cluster, runtime, store, desired, health, certificate, onCertificateChange, onModulesChange, ...replica } =
    options;
  const report = (): void =>
    cluster.report({
      ...replica,
      certificate: certificate?.(),
      state: runtime.status().state,
      run: runOf(runtime, store.active()),
      incompleteSeq: runtime.incompleteSeq(),
      health: health?.own(),
      ...(!desired.current().isStarted && { isStopped: true }),
    });
  const subscriptions = new DisposableStack();
  subscriptions.use(runtime.onChange(report));
  subscriptions.use(runtime.onResult(report));
  subscriptions.use(desired.onChange(report));
  subscriptions.use(health?.onChange(report));
  onCertificateChange?.(report);
  subscriptions.use(onModulesChange?.(report));
  report();
  return subscriptions;
}
