import { createListeners } from "../../base/listeners.ts";
import { type Fence, msUntil } from "../fence.ts";
import type { Boundary, RuntimeOptions } from "../options.ts";
import { type RevisionResult, type Runtime, isIncomplete, outcomeMessage, pending } from "../runtime.ts";
import { createStateReporter, readFlowRuntime } from "../state-reporter.ts";
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
  /** The last result, if it is that node types or modules are missing. It is kept without a runtime. */
  let incomplete: RevisionResult | undefined;
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

  function standBy(): void {
    const reason = incomplete && outcomeMessage(incomplete.result);
    const here = reason === undefined ? "" : `; here they could not be started: ${reason}`;
    reporter.set("standby", `only the replica that holds the lease runs the flows${here}`);
  }

  /** What was missing may have been installed since. */
  function forgetMissing(): void {
    if (incomplete === undefined) {
      return;
    }
    incomplete = undefined;
    standBy();
  }

  async function follow(): Promise<void> {
    if (opened !== undefined && opened.fence !== keeper.fence()) {
      const { runtime, fence } = opened;
      const timer = setTimeout(() => runtime.kill(), Math.max(msUntil(fence.deadline()), 0));
      await close(opened);
      clearTimeout(timer);
    }
    if (opened !== undefined) {
      return;
    }
    const fence = keeper.fence();
    if (fence === undefined) {
      standBy();
      // A service that is about to stop must not take over.
      if (isReleased) {
        void keeper[Symbol.asyncDispose]();
      } else {
        await keeper.handOver();
      }
    } else if (!isReleased) {
      openWith(fence);
    }
  }

  function openWith(fence: Fence): void {
    const runtime = open(fence);
    const subscriptions = new DisposableStack();
    subscriptions.use(runtime.onChange(() => changes.notify()));
    subscriptions.use(
      runtime.onResult((result) => {
        incomplete = isIncomplete(result.result) ? result : undefined;
        results.notify(result);
      }),
    );
    opened = { fence, runtime, subscriptions };
    changes.notify();
  }

  const following = keeper.onChange(() => {
    queue = queue.then(follow);
  });

  async function stop(): Promise<void> {
    following[Symbol.dispose]();
    await queue;
    if (opened !== undefined) {
      await close(opened);
    }
    await keeper[Symbol.asyncDispose]();
    // Reported to the other replicas only now, when they can acquire the lease.
    reporter.set("stopped");
  }

  let stopped: Promise<void> | undefined;
  return {
    async apply(revision, type, ...call) {
      if (opened !== undefined) {
        return opened.runtime.apply(revision, type, ...call);
      }
      if (type === "reload") {
        forgetMissing();
      }
      return pending;
    },
    async restart(...call) {
      if (opened !== undefined) {
        return opened.runtime.restart(...call);
      }
      forgetMissing();
      return pending;
    },
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
    incompleteSeq: () => incomplete?.revision.seq,
    onChange: (listener) => changes.add(listener),
    onResult: (listener) => results.add(listener),
    release() {
      isReleased = true;
      if (opened === undefined) {
        void keeper[Symbol.asyncDispose]();
      } else {
        opened.runtime.release();
      }
    },
    kill: () => opened?.runtime.kill(),
    [Symbol.asyncDispose]: () => (stopped ??= stop()),
  };
}
