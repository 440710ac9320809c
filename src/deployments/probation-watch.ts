import { combineRuns } from "../replicas/runs.ts";
import type { DeploymentResult, RevisionResult, Runtime } from "@flowgate/runtime";
import type { Cluster } from "../store/cluster.ts";
import type { DesiredStateStore } from "../store/desired-state.ts";
import type { FlowStore } from "../store/flow-store.ts";
import type { Revision } from "../store/revision.ts";

/** `healthy`: the flows have run without failure for the time; `replaced`: a newer revision became active before. */
export type ProbationVerdict =
  | { readonly kind: "healthy" | "replaced" | "stopped" }
  | { readonly kind: "failed"; readonly result: DeploymentResult };

/** Disposing ends it with `stopped`. */
export type ProbationWatch = Disposable & { readonly verdict: Promise<ProbationVerdict> };

export type Watched = {
  readonly runtime: Pick<Runtime, "lastResult" | "onResult" | "onChange" | "status">;
  readonly store: Pick<FlowStore, "active" | "onRevision">;
  readonly desired: Pick<DesiredStateStore, "current" | "onChange">;
  /** Resolves when failures of the time that has passed are known. Absent: at once. */
  readonly ready?: Promise<void> | undefined;
};

type WatchReporter = {
  /** The flows run; unless they fail, they are healthy after the time. */
  started(): void;
  /** The flows do not run any more, or not everywhere, which is not a failure. */
  interrupted(): void;
  failed(result: DeploymentResult): void;
};

/**
 * Watches an active revision until its flows have run for `forMs`, or have failed, as `observe` reports. The time begins anew when the
 * flows were stopped and are started again.
 */
function openWatch(
  { seq }: Revision,
  forMs: number,
  { runtime, store, desired, ready = Promise.resolve() }: Watched,
  observe: (health: WatchReporter) => Disposable,
): ProbationWatch {
  const { promise: verdict, resolve } = Promise.withResolvers<ProbationVerdict>();
  let timer: NodeJS.Timeout | undefined;
  const subscriptions = new DisposableStack();
  const finish = (value: ProbationVerdict): void => {
    clearTimeout(timer);
    subscriptions.dispose();
    resolve(value);
  };

  subscriptions.use(
    runtime.onChange(() => {
      // Otherwise the service is closing.
      if (runtime.status().state === "stopped" && desired.current().isStarted) {
        finish({ kind: "stopped" });
      }
    }),
  );
  subscriptions.use(
    store.onRevision(({ revision }) => {
      if (revision.seq !== seq) {
        finish({ kind: "replaced" });
      }
    }),
  );
  const interrupted = (): void => {
    clearTimeout(timer);
    timer = undefined;
  };
  subscriptions.use(
    desired.onChange(() => {
      if (!desired.current().isStarted) {
        interrupted();
      }
    }),
  );
  if (store.active().seq === seq) {
    const observer = observe({
      started() {
        if (desired.current().isStarted) {
          timer ??= setTimeout(() => void ready.then(() => finish({ kind: "healthy" })), forMs);
        }
      },
      interrupted,
      failed: (result) => finish({ kind: "failed", result }),
    });
    if (subscriptions.disposed) {
      observer[Symbol.dispose]();
    } else {
      subscriptions.use(observer);
    }
  } else {
    finish({ kind: "replaced" });
  }
  return { verdict, [Symbol.dispose]: () => finish({ kind: "stopped" }) };
}

/** Watches the runtime of this process. `countsEarlier`: a failure before this call counts too. */
export function watchRuntime(
  revision: Revision,
  forMs: number,
  watched: Watched,
  { countsEarlier = false }: { readonly countsEarlier?: boolean } = {},
): ProbationWatch {
  const { runtime } = watched;
  return openWatch(revision, forMs, watched, (health) => {
    let isRunning = false;
    const handleResult = ({ revision: { seq }, result }: RevisionResult): void => {
      if (seq !== revision.seq) {
        return;
      }
      if (result.outcome !== "running") {
        health.failed(result);
      } else {
        isRunning = true;
        health.started();
      }
    };
    const subscriptions = new DisposableStack();
    subscriptions.use(runtime.onResult(handleResult));
    subscriptions.use(
      runtime.onChange(() => {
        const { state, message } = runtime.status();
        if (isRunning && (state === "starting" || state === "stopped")) {
          // On demand: in a new process, or until they are started.
          isRunning = false;
          health.interrupted();
        } else if (isRunning && state !== "running") {
          health.failed({ outcome: "failed", missingTypes: [], message });
        }
      }),
    );
    const last = runtime.lastResult();
    if (
      last !== undefined &&
      (countsEarlier || (last.result.outcome === "running" && runtime.status().state === "running"))
    ) {
      handleResult(last);
    }
    return subscriptions;
  });
}

/** Watches the runtimes of all replicas that run flows. */
export function watchReplicas(
  revision: Revision,
  forMs: number,
  { cluster, ...watched }: Watched & { readonly cluster: Pick<Cluster, "replicas" | "onChange"> },
): ProbationWatch {
  const { seq } = revision;
  return openWatch(revision, forMs, watched, (health) => {
    const evaluate = (): void => {
      const result = combineRuns(cluster.replicas(), seq);
      if (result !== undefined && result.outcome !== "running") {
        health.failed(result);
      } else if (result === undefined) {
        // A replica that has joined starts the flows.
        health.interrupted();
      } else {
        health.started();
      }
    };
    const subscription = cluster.onChange(evaluate);
    evaluate();
    return subscription;
  });
}
