import { running } from "../runtime/deployment.ts";
import type { DeploymentResult } from "../runtime/runtime.ts";
import type { Replica, ReplicaRun, ReplicaStatus } from "../store/cluster.ts";

type Runner = Replica & { readonly run: ReplicaRun };

const idleStates: ReadonlySet<string> = new Set(["standby", "disabled", "stopped"]);

/** Whether a replica in this state of its runtime runs flows, or is going to. */
export function isRunnerState(state: ReplicaStatus["state"]): boolean {
  return !idleStates.has(state);
}

/** The replicas that run flows. */
export function runnersOf(replicas: readonly Replica[]): Runner[] {
  return replicas.filter((replica): replica is Runner => replica.run !== undefined && isRunnerState(replica.state));
}

/** Whether none of them will run flows, so that there is nothing to wait for. */
export function isApiOnly(replicas: readonly Replica[]): boolean {
  // The list is empty until it is read for the first time.
  return replicas.length > 0 && replicas.every(({ mode }) => mode === "none");
}

/** The message with the name of the replica that it is about. */
export function ofReplica({ name }: Pick<ReplicaStatus, "name">, message: string): string {
  return `${name}: ${message}`;
}

/** The message with the name of this replica, if it is known. */
export function ofSelf(replicas: readonly Replica[], message: string): string {
  const self = replicas.find(({ isSelf }) => isSelf);
  return self === undefined ? message : ofReplica(self, message);
}

/**
 * The result of a revision, or a newer one, on all replicas that run flows: the first failure, or `running` if all of them run
 * it. Undefined while one has not started it, or if there is none.
 */
export function combineRuns(replicas: readonly Replica[], seq: number): DeploymentResult | undefined {
  const runners = runnersOf(replicas);
  for (const replica of runners) {
    const { run } = replica;
    if (run.seq >= seq && (run.outcome === "failed" || run.outcome === "crashed")) {
      const { outcome, missingTypes, message } = run;
      return { outcome, missingTypes, message: ofReplica(replica, message ?? outcome) };
    }
  }
  const allRun = runners.every(({ run }) => run.seq >= seq && run.outcome === "running");
  return runners.length > 0 && allRun ? running : undefined;
}
