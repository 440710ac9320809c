import type { Duplex } from "node:stream";
import { type Context, ROOT_CONTEXT } from "@opentelemetry/api";
import { createListeners } from "@flowgate/base/listeners";
import { FlowgateError } from "@flowgate/flows/errors";
import type { DeploymentType } from "@flowgate/flows";
import type { Revision } from "./revision.ts";
import { logBoundary, withLauncher } from "./boundary.ts";
import { type CallOptions, type Procedure, flowsStopped } from "./calls.ts";
import { type CacheFilling, fillCompileCache, prepareCodeCacheDir } from "./compile-cache.ts";
import {
  DeploymentQueue,
  createWaiter,
  deploymentWaitMs,
  includesDeployment,
  resolveWaiters,
} from "./deployment-queue.ts";
import { describeWritableModules } from "./writable-folders.ts";
import { prepareModulesDir } from "./modules/folder.ts";
import { prepareUserDir, warnOfUnloadedModules } from "./user-dir.ts";
import { InstanceKeeper } from "./instance-keeper.ts";
import { type CompleteOptions, type RuntimeOptions, completeOptions } from "./options.ts";
import { Renewals } from "./restarts.ts";
import {
  type ModulesResult,
  type DeploymentResult,
  type RevisionResult,
  type Runtime,
  type RuntimeProcessStats,
  type RuntimeStatus,
  type WaitOptions,
  isIncomplete,
  pending,
  stopped,
} from "./runtime.ts";
import type { RuntimeInstance } from "./runtime-instance.ts";
import { StateReporter } from "./state-reporter.ts";

/**
 * Starts the flow runtime in a separate process in the background, and keeps the newest revision running. Throws if `dir`
 * can't be created; failures of the flows are reported by `status`.
 */
export function openRuntime(runtimeOptions: RuntimeOptions): Runtime {
  const options = openFolders(runtimeOptions);
  logBoundary(options);
  return new Supervisor(options);
}

/** Creates the folders of the runtime, and completes its options with their real paths. */
function openFolders(options: RuntimeOptions): CompleteOptions {
  const dir = prepareUserDir(options.dir);
  const modulesDir = options.modulesDir === undefined ? undefined : prepareModulesDir(options.modulesDir);
  const complete = completeOptions({ ...options, dir, modulesDir });
  const { log } = complete;
  const completed = withLauncher({ ...complete, codeCacheDir: prepareCodeCacheDir(complete) });
  const problem = modulesDir && describeWritableModules(modulesDir, [dir, ...completed.allow.fileSystemWrite]);
  if (problem !== undefined) {
    log({ level: "error", message: problem }, "runtime");
  }
  warnOfUnloadedModules(dir, modulesDir, log);
  return problem === undefined ? completed : { ...completed, modulesDir: undefined };
}

/** The message of the state `stopped` if it is desired. Public: it does not name who has stopped the flows. */
const onRequest = "on request, until the flows are started";

/** Queues deployments for the current instance of the runtime, and reports their results. */
class Supervisor implements Runtime {
  readonly #options: CompleteOptions;
  readonly #queue = new DeploymentQueue();
  readonly #renewals: Renewals;
  readonly #reporter: StateReporter;
  readonly #keeper: InstanceKeeper;
  readonly #results = createListeners<RevisionResult>();
  readonly #following: Disposable;
  /** True if the flows run, or are started: what was last done about what is desired. */
  #isStarted: boolean;
  #lastResult: RevisionResult | undefined;
  #cacheFilling: CacheFilling | undefined;
  #isReleased = false;
  #closed: Promise<void> | undefined;

  constructor(options: CompleteOptions) {
    this.#options = options;
    this.#renewals = new Renewals(options);
    this.#reporter = new StateReporter(options.log);
    this.#keeper = new InstanceKeeper({
      options,
      queue: this.#queue,
      renewals: this.#renewals,
      reporter: this.#reporter,
      onResult: (result) => this.#handleResult(result),
    });
    const { desired } = options;
    this.#isStarted = desired.current().isStarted;
    if (this.#isStarted) {
      this.#keeper.start();
    } else {
      this.#reporter.set("stopped", onRequest);
    }
    this.#following = desired.onChange(() => this.#follow());
  }

  /** Starts or stops the flows, as is desired. */
  #follow(): void {
    const { isStarted } = this.#options.desired.current();
    if (isStarted === this.#isStarted) {
      return;
    }
    this.#isStarted = isStarted;
    if (isStarted) {
      this.#reporter.set("starting");
      this.#keeper.startAgain();
    } else {
      void this.#stopFlows();
    }
  }

  async #stopFlows(): Promise<void> {
    this.#lastResult = undefined;
    resolveWaiters(this.#queue.take(), stopped);
    resolveWaiters(this.#keeper.current?.currentDeployment, stopped);
    await this.#keeper.stop();
    if (!this.#isStarted && this.#closed === undefined) {
      this.#reporter.set("stopped", onRequest);
    }
  }

  #handleResult(result: RevisionResult): void {
    this.#lastResult = result;
    // Not before: the flows come first.
    if (this.#closed === undefined) {
      this.#cacheFilling ??= fillCompileCache(this.#options);
    }
    this.#results.notify(result);
  }

  async apply(
    revision: Revision,
    type: DeploymentType = "full",
    trace: Context = ROOT_CONTEXT,
    wait: WaitOptions = {},
  ): Promise<DeploymentResult> {
    if (this.#isOver()) {
      return pending;
    }
    if (!this.#isStarted) {
      this.#queue.record(revision);
      return stopped;
    }
    const instance = this.#keeper.current;
    if (instance?.hasApplied({ revision, type }) === true) {
      return this.#lastResult?.result ?? pending;
    }
    const newest = this.#queue.record(revision);
    const waiter = createWaiter(deploymentWaitMs(newest, this.#options.deadlineMs), wait);
    const current = instance?.currentDeployment;
    if (current !== undefined && includesDeployment(current, { revision, type })) {
      current.waiters.add(waiter);
      return waiter.result;
    }
    this.#queue.add({ revision: newest, type, waiters: new Set([waiter]), trace });
    this.#keeper.deployQueued();
    return waiter.result;
  }

  async restart(
    revision: Revision,
    trace: Context = ROOT_CONTEXT,
    { clearFiles = false, ...wait }: WaitOptions & { readonly clearFiles?: boolean } = {},
  ): Promise<DeploymentResult> {
    if (this.#isOver()) {
      return pending;
    }
    if (!this.#isStarted) {
      return stopped;
    }
    if (clearFiles) {
      this.#keeper.clearFiles();
    }
    const waiter = createWaiter(deploymentWaitMs(revision, this.#options.deadlineMs), wait);
    this.#renewals.request();
    this.#keeper.retryModules();
    this.#queue.add({ revision: this.#queue.record(revision), type: "full", waiters: new Set([waiter]), trace });
    this.#keeper.deployQueued();
    return waiter.result;
  }

  async applyModules(revision: Revision, trace?: Context, wait: WaitOptions = {}): Promise<ModulesResult> {
    const waiter = createWaiter(deploymentWaitMs(revision, this.#options.deadlineMs), wait);
    void this.#applyModules(revision, trace, wait).then((result) => waiter.resolve(result));
    return { isRestarted: false, ...(await waiter.result) };
  }

  async #applyModules(
    revision: Revision,
    trace: Context | undefined,
    wait: WaitOptions,
  ): Promise<DeploymentResult | ModulesResult> {
    const instance = this.#keeper.current;
    if (this.#isOver() || !this.#isStarted || (await this.#keeper.loadModules()) !== true) {
      const result = await this.restart(revision, trace, wait);
      return { ...result, isRestarted: true };
    }
    const last = this.#lastResult?.result;
    const isComplete = last !== undefined && !isIncomplete(last) && instance?.isEmpty === false;
    const result =
      isComplete && instance.currentDeployment === undefined ? last : await this.#startWaiting(revision, trace, wait);
    return { ...result, isRestarted: this.#keeper.current !== instance };
  }

  /** Starts what has waited for modules, or all in a process that has no flows yet. What runs goes on. */
  #startWaiting(revision: Revision, trace: Context = ROOT_CONTEXT, wait: WaitOptions = {}): Promise<DeploymentResult> {
    const waiter = createWaiter(deploymentWaitMs(revision, this.#options.deadlineMs), wait);
    const current = this.#keeper.current?.currentDeployment;
    if (current !== undefined) {
      // It has begun with the modules.
      current.waiters.add(waiter);
      return waiter.result;
    }
    this.#queue.add({ revision: this.#queue.record(revision), type: "nodes", waiters: new Set([waiter]), trace });
    this.#keeper.deployQueued();
    return waiter.result;
  }

  async call<Argument, Result>(
    procedure: Procedure<Argument, Result>,
    argument: Argument,
    options?: CallOptions,
  ): Promise<Result> {
    return this.#callable().call(procedure, argument, options);
  }

  connectAdmin(): Duplex {
    const connection = this.#callable().connectAdmin();
    if (connection === undefined) {
      throw new FlowgateError("call_failed", "the routes of nodes are not served: set nodeRed.port");
    }
    return connection;
  }

  /** The instance that runs the flows. Throws if there is none. */
  #callable(): RuntimeInstance {
    if (!this.#isStarted) {
      throw flowsStopped();
    }
    const instance = this.#keeper.current;
    if (instance?.canBeCalled !== true) {
      throw new FlowgateError(
        "flows_not_running",
        `the flows do not run now: the flow runtime is ${this.#reporter.state}`,
      );
    }
    return instance;
  }

  degrade(seq: number, message: string): void {
    const last = this.#lastResult;
    if (last?.revision.seq !== seq || last.result.outcome !== "running" || this.#reporter.state !== "running") {
      return;
    }
    const { message: notice } = this.status();
    // First, so that observers of the state find the reason in the result.
    this.#handleResult({
      revision: last.revision,
      result: { outcome: "degraded", missingTypes: [], isLate: true, message },
    });
    this.#reporter.set("running", notice === undefined ? message : `${message}; ${notice}`);
  }

  reloadModules(): void {
    if (this.#keeper.loadModules() === undefined) {
      this.#renewals.request("modules were installed");
      this.#keeper.retryModules();
    }
  }

  status(): RuntimeStatus {
    const status = this.#reporter.status({ httpPort: this.#keeper.httpPort, boundary: this.#options.launcher });
    const problem = this.#options.modulesProblem();
    return problem === undefined || status.state === "stopped"
      ? status
      : { ...status, message: [status.message, problem.message].filter((part) => part !== undefined).join("; ") };
  }

  processStats(): RuntimeProcessStats {
    const stats = this.#keeper.stats();
    return this.#reporter.state === "stopped" ? { ...stats, heartbeatAgeMs: 0 } : stats;
  }

  processId(): number | undefined {
    return this.#keeper.current?.processId();
  }

  nodeTypes(): ReadonlySet<string> | undefined {
    return this.#keeper.nodeTypes;
  }

  lastResult(): RevisionResult | undefined {
    return this.#lastResult;
  }

  incompleteSeq(): number | undefined {
    const last = this.#lastResult;
    return last && isIncomplete(last.result) ? last.revision.seq : this.#options.modulesProblem()?.seq;
  }

  onChange(listener: () => void): Disposable {
    return this.#reporter.onChange(listener);
  }

  onResult(listener: (result: RevisionResult) => void): Disposable {
    return this.#results.add(listener);
  }

  release(): void {
    this.#isReleased = true;
    resolveWaiters(this.#queue.next, pending);
    resolveWaiters(this.#keeper.current?.currentDeployment, pending);
  }

  kill(): void {
    this.#keeper.kill();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return (this.#closed ??= this.#close());
  }

  async #close(): Promise<void> {
    this.#following[Symbol.dispose]();
    this.release();
    this.#reporter.set("stopped");
    await Promise.all([this.#keeper.stop(), this.#cacheFilling?.[Symbol.asyncDispose]()]);
  }

  #isOver(): boolean {
    return this.#isReleased || this.#closed !== undefined;
  }
}
