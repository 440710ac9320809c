import type { Duplex } from "node:stream";
import { createListeners } from "@flowgate/base/listeners";
import {
  type CallOptions,
  type Procedure,
  noRuntime,
  type Fence,
  msUntil,
  type RuntimeLog,
  type Boundary,
  type RuntimeOptions,
  type ModulesResult,
  type DeploymentResult,
  type RevisionResult,
  type Runtime,
  type RuntimeProcessStats,
  type RuntimeStatus,
  isIncomplete,
  outcomeMessage,
  pending,
  StateReporter,
} from "@flowgate/runtime";
import type { LeaseKeeper } from "./lease-keeper.ts";

type LeasedRuntimeOptions = {
  readonly keeper: LeaseKeeper;
  /** Opens a runtime that runs the newest revision. */
  readonly open: (fence: Fence) => Runtime;
  /** The boundary that isolates the flows. */
  readonly boundary?: Boundary | undefined;
  /** As in `RuntimeOptions`. */
  readonly modulesProblem?: RuntimeOptions["modulesProblem"];
  readonly log: RuntimeLog;
};

type Opened = { readonly fence: Fence; readonly runtime: Runtime; readonly subscriptions: DisposableStack };

/** Runs flows while this replica holds the lease. Disposing stops them, then releases the lease. */
export function openLeasedRuntime(options: LeasedRuntimeOptions): Runtime {
  return new LeasedRuntime(options);
}

class LeasedRuntime implements Runtime {
  readonly #keeper: LeaseKeeper;
  readonly #open: LeasedRuntimeOptions["open"];
  readonly #boundary: Boundary | undefined;
  readonly #modulesProblem: NonNullable<RuntimeOptions["modulesProblem"]>;
  /** The state while there is no runtime. */
  readonly #reporter: StateReporter;
  readonly #changes = createListeners<void>();
  readonly #results = createListeners<RevisionResult>();
  readonly #following: Disposable;
  #opened: Opened | undefined;
  /** The last result, if it is that node types or modules are missing. It is kept without a runtime. */
  #incomplete: RevisionResult | undefined;
  #isReleased = false;
  #endedRestarts = 0;
  /** Runtimes are opened and closed one after another. */
  #queue: Promise<void> = Promise.resolve();
  #stopped: Promise<void> | undefined;

  constructor({ keeper, open, boundary, modulesProblem = () => undefined, log }: LeasedRuntimeOptions) {
    this.#keeper = keeper;
    this.#open = open;
    this.#boundary = boundary;
    this.#modulesProblem = modulesProblem;
    this.#reporter = new StateReporter(log);
    this.#reporter.onChange(() => this.#changes.notify());
    this.#following = keeper.onChange(() => {
      this.#queue = this.#queue.then(() => this.#follow());
    });
  }

  async apply(...call: Parameters<Runtime["apply"]>): Promise<DeploymentResult> {
    if (this.#opened !== undefined) {
      return this.#opened.runtime.apply(...call);
    }
    const [, type] = call;
    if (type === "reload") {
      this.#forgetMissing();
    }
    return pending;
  }

  async restart(...call: Parameters<Runtime["restart"]>): Promise<DeploymentResult> {
    if (this.#opened !== undefined) {
      return this.#opened.runtime.restart(...call);
    }
    this.#forgetMissing();
    return pending;
  }

  async applyModules(...call: Parameters<Runtime["applyModules"]>): Promise<ModulesResult> {
    if (this.#opened !== undefined) {
      return this.#opened.runtime.applyModules(...call);
    }
    this.#forgetMissing();
    return { ...pending, isRestarted: false };
  }

  async call<Argument, Result>(
    procedure: Procedure<Argument, Result>,
    argument: Argument,
    options?: CallOptions,
  ): Promise<Result> {
    if (this.#opened === undefined) {
      throw noRuntime("another replica runs the flows (runtime.mode: one)");
    }
    return this.#opened.runtime.call(procedure, argument, options);
  }

  connectAdmin(): Duplex {
    if (this.#opened === undefined) {
      throw noRuntime("another replica runs the flows (runtime.mode: one)");
    }
    return this.#opened.runtime.connectAdmin();
  }

  degrade(seq: number, message: string): void {
    this.#opened?.runtime.degrade(seq, message);
  }

  reloadModules(): void {
    this.#opened?.runtime.reloadModules();
    this.#forgetMissing();
  }

  status(): RuntimeStatus {
    if (this.#opened !== undefined) {
      return this.#opened.runtime.status();
    }
    const status = this.#reporter.status({ httpPort: 0, boundary: this.#boundary });
    const problem = this.#modulesProblem();
    return problem === undefined || status.state !== "standby"
      ? status
      : { ...status, message: `${status.message}; modules could not be installed here: ${problem.message}` };
  }

  processStats(): RuntimeProcessStats {
    const { restarts, heartbeatAgeMs } = this.#opened?.runtime.processStats() ?? { restarts: 0, heartbeatAgeMs: 0 };
    return { restarts: this.#endedRestarts + restarts, heartbeatAgeMs };
  }

  processId(): number | undefined {
    return this.#opened?.runtime.processId();
  }

  nodeTypes(): ReadonlySet<string> | undefined {
    return this.#opened?.runtime.nodeTypes();
  }

  lastResult(): RevisionResult | undefined {
    return this.#opened?.runtime.lastResult();
  }

  incompleteSeq(): number | undefined {
    return this.#incomplete?.revision.seq ?? this.#modulesProblem()?.seq;
  }

  onChange(listener: () => void): Disposable {
    return this.#changes.add(listener);
  }

  onResult(listener: (result: RevisionResult) => void): Disposable {
    return this.#results.add(listener);
  }

  release(): void {
    this.#isReleased = true;
    if (this.#opened === undefined) {
      void this.#keeper[Symbol.asyncDispose]();
    } else {
      this.#opened.runtime.release();
    }
  }

  kill(): void {
    this.#opened?.runtime.kill();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return (this.#stopped ??= this.#stop());
  }

  async #stop(): Promise<void> {
    this.#following[Symbol.dispose]();
    await this.#queue;
    if (this.#opened !== undefined) {
      await this.#close(this.#opened);
    }
    await this.#keeper[Symbol.asyncDispose]();
    // Reported to the other replicas only now, when they can acquire the lease.
    this.#reporter.set("stopped");
  }

  /** The lease was acquired or lost. */
  async #follow(): Promise<void> {
    if (this.#opened !== undefined && this.#opened.fence !== this.#keeper.fence()) {
      const { runtime, fence } = this.#opened;
      const timer = setTimeout(() => runtime.kill(), Math.max(msUntil(fence.deadline()), 0));
      await this.#close(this.#opened);
      clearTimeout(timer);
    }
    if (this.#opened !== undefined) {
      return;
    }
    const fence = this.#keeper.fence();
    if (fence === undefined) {
      this.#standBy();
      // A service that is about to stop must not take over.
      if (this.#isReleased) {
        void this.#keeper[Symbol.asyncDispose]();
      } else {
        await this.#keeper.handOver();
      }
    } else if (!this.#isReleased) {
      this.#openWith(fence);
    }
  }

  #openWith(fence: Fence): void {
    const runtime = this.#open(fence);
    const subscriptions = new DisposableStack();
    subscriptions.use(runtime.onChange(() => this.#changes.notify()));
    subscriptions.use(
      runtime.onResult((result) => {
        this.#incomplete = isIncomplete(result.result) ? result : undefined;
        this.#results.notify(result);
      }),
    );
    this.#opened = { fence, runtime, subscriptions };
    this.#changes.notify();
  }

  async #close({ runtime, subscriptions }: Opened): Promise<void> {
    subscriptions.dispose();
    await runtime[Symbol.asyncDispose]();
    this.#endedRestarts += runtime.processStats().restarts;
    this.#opened = undefined;
  }

  #standBy(): void {
    const reason = this.#incomplete && outcomeMessage(this.#incomplete.result);
    const here = reason === undefined ? "" : `; here they could not be started: ${reason}`;
    this.#reporter.set("standby", `only the replica that holds the lease runs the flows${here}`);
  }

  /** Called when missing modules may have been installed. */
  #forgetMissing(): void {
    if (this.#incomplete === undefined) {
      return;
    }
    this.#incomplete = undefined;
    this.#standBy();
  }
}
