import type { Cluster } from "../store/cluster.ts";
import type { DesiredStateStore } from "../store/desired-state.ts";
import type { FlowStore } from "../store/flow-store.ts";
import {
  type Waiter,
  createWaiter,
  deploymentWaitMs,
  type DeploymentResult,
  type Runtime,
  isRunning,
  pending,
  stopped,
} from "@flowgate/runtime";
import { awaitsStart, combineRuns, handsOverAfter, isApiOnly, ofSelf, runnersOf } from "./runs.ts";

type ClusterRuntimeOptions = {
  /** That of this replica. */
  readonly runtime: Pick<Runtime, "apply">;
  readonly cluster: Pick<Cluster, "replicas" | "onChange">;
  /** True if the flows are to run. */
  readonly desired: Pick<DesiredStateStore, "current" | "onChange">;
  /** Time limit of a deployment; longer for very large ones. */
  readonly deadlineMs: number;
};

/**
 * Applies deployments to the runtime of this replica, and waits until all replicas that run flows have dealt with them. The others
 * apply them by themselves when they read the revision. A reload makes no revision and is awaited on this replica only.
 */
export function createClusterRuntime({
  runtime,
  cluster,
  desired,
  deadlineMs,
}: ClusterRuntimeOptions): Pick<Runtime, "apply" | "release"> {
  const waiters = new Set<Waiter>();
  let isReleased = false;

  /** `own` is more recent than the report of this replica. */
  function combine(own: DeploymentResult, seq: number): DeploymentResult | undefined {
    if (!desired.current().isStarted) {
      return stopped;
    }
    const replicas = cluster.replicas();
    if (replicas.some(awaitsStart)) {
      return undefined;
    }
    if (own.outcome === "pending") {
      return isApiOnly(replicas) ? pending : combineRuns(replicas, seq);
    }
    const others = replicas.filter(({ isSelf }) => !isSelf);
    if (handsOverAfter(own, replicas, seq)) {
      return combineRuns(others, seq);
    }
    const named = own.outcome === "running" ? own : { ...own, message: ofSelf(replicas, own.message ?? own.outcome) };
    if (!isRunning(own) || runnersOf(others).length === 0) {
      return named;
    }
    const result = combineRuns(others, seq);
    return result !== undefined && isRunning(result) && named !== own ? named : result;
  }

  return {
    async apply(revision, type, trace, wait) {
      if (isReleased) {
        return pending;
      }
      if (type === "reload") {
        return runtime.apply(revision, type, trace, wait);
      }
      const waiter = createWaiter(deploymentWaitMs(revision, deadlineMs), wait);
      waiters.add(waiter);
      let own = pending;
      const check = (): void => {
        const result = combine(own, revision.seq);
        if (result !== undefined) {
          waiter.resolve(result);
        }
      };
      using subscriptions = new DisposableStack();
      subscriptions.use(cluster.onChange(check));
      subscriptions.use(desired.onChange(check));
      check();
      void runtime.apply(revision, type, trace, wait).then((result) => {
        own = result;
        check();
      });
      const result = await waiter.result;
      waiters.delete(waiter);
      return result;
    },
    release() {
      isReleased = true;
      for (const waiter of waiters) {
        waiter.resolve(pending);
      }
    },
  };
}

/**
 * Applies each revision that another process commits, and reloads the flows when another process does. Revisions of this
 * process are applied by the service that commits them. Disposing ends the subscription.
 */
export function followRevisions(
  store: Pick<FlowStore, "active" | "onRevision">,
  runtime: Pick<Runtime, "apply">,
  /** Installs the modules of the active revision. Resolves when that has succeeded or failed. Defaults to doing nothing. */
  prepare?: () => Promise<unknown>,
): Disposable {
  let { seq } = store.active();
  return store.onRevision(({ revision, isOwn, isReload = false }) => {
    // A skipped revision may have been a full deployment.
    const type = revision.seq === seq + 1 ? revision.deploymentType : "full";
    seq = revision.seq;
    const apply = (): void => void runtime.apply(revision, isReload ? "reload" : type);
    if (!isOwn && prepare === undefined) {
      apply();
    } else if (!isOwn) {
      void prepare?.().then(apply);
    }
  });
}
