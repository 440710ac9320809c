import { createListeners } from "../listeners.ts";
import type { Boundary } from "../runtime/boundary.ts";
import { pending } from "../runtime/deployment.ts";
import { type Fence, msUntil } from "../runtime/fence.ts";
import { readFlowRuntime } from "../runtime/flow-runtime.ts";
import type { RuntimeOptions } from "../runtime/options.ts";
import type { RevisionResult, Runtime } from "../runtime/runtime.ts";
import { createStateReporter } from "../runtime/state-reporter.ts";
import type { LeaseKeeper } from "./lease-keeper.ts";

type LeasedRuntimeOptions = {
  readonly keeper: LeaseKeeper;
  /** Opens a runtime that runs the newest revision. */
  readonly open: (fence: Fence) => Runtime;
  /** What isolates the flows. */
  readonly boundary?: Boundary | undefined;
  readonly log: RuntimeOptions["log"];
};

type Opened = { readonly fence: Fence; readonly runtime: Runtime; readonly subscriptions: DisposableStack };

/** Runs flows while this replica holds the lease. Disposing stops them, then releases the lease. */
export function openLeasedRuntime({ keeper, open, boundary, log }: LeasedRuntimeOptions): Runtime {
  const flowRuntime = readFlowRuntime();
  const changes = createListeners<void>();
  const results = createListeners<RevisionResult>();
  /** The state while there is no runtime. */
  const reporter = createStateReporter(log);
  reporter.onChange(() => changes.notify());
  let opened: Opened | undefined;
  let isReleased = false;
  let endedRestarts = 0;
  /** Runtimes are opened and closed one after another. */
  let queue: Promise<void> = Promise.resolve();

  async function close({ runtime, subscriptions }: Opened): Promise<void> {
    subscriptions.dispose();
    await runtime[Symbol.asyncDispose]();
    endedRestarts += runtime.processStats().restarts;
    opened = undefined;
  }

  async function follow(): Promise<void> {
    if (opened !== undefined && opened.fence !== keeper.fence()) {
      const { runtime, fence } = opened;
      const timer = setTimeout(() => runtime.kill(), Math.max(msUntil(fence.deadline()), 0));
      await close(opened);
      clearTimeout(timer);
    }
    if (opened !== undefined) return;
    const fence = keeper.fence();
    if (fence === undefined) {
      reporter.set("standby", "only the replica that holds the lease runs the flows");
      // A service that is about to stop must not take over.
      if (isReleased) void keeper[Symbol.asyncDispose]();
    } else if (!isReleased) {
      openWith(fence);
    }
  }

  function openWith(fence: Fence): void {
    const runtime = open(fence);
    const subscriptions = new DisposableStack();
    subscriptions.use(runtime.onChange(() => changes.notify()));
    subscriptions.use(runtime.onResult((result) => results.notify(result)));
    opened = { fence, runtime, subscriptions };
    changes.notify();
  }

  const following = keeper.onChange(() => {
    queue = queue.then(follow);
  });

  async function stop(): Promise<void> {
    following[Symbol.dispose]();
    await queue;
    if (opened !== undefined) await close(opened);
    await keeper[Symbol.asyncDispose]();
    // Reported to the other replicas only now, when they can acquire the lease.
    reporter.set("stopped");
  }

  let stopped: Promise<void> | undefined;
  return {
    apply: async (...call) => opened?.runtime.apply(...call) ?? pending,
    restart: async (...call) => opened?.runtime.restart(...call) ?? pending,
    distrust: (reason) => opened?.runtime.distrust(reason),
    status: () =>
      opened?.runtime.status() ?? {
        ...flowRuntime,
        state: reporter.state,
        httpPort: 0,
        message: reporter.message,
        boundary,
      },
    processStats() {
      const { restarts, heartbeatAgeMs } = opened?.runtime.processStats() ?? { restarts: 0, heartbeatAgeMs: 0 };
      return { restarts: endedRestarts + restarts, heartbeatAgeMs };
    },
    processId: () => opened?.runtime.processId(),
    nodeTypes: () => opened?.runtime.nodeTypes(),
    lastResult: () => opened?.runtime.lastResult(),
    onChange: (listener) => changes.add(listener),
    onResult: (listener) => results.add(listener),
    release() {
      isReleased = true;
      if (opened === undefined) void keeper[Symbol.asyncDispose]();
      else opened.runtime.release();
    },
    kill: () => opened?.runtime.kill(),
    [Symbol.asyncDispose]: () => (stopped ??= stop()),
  };
}
