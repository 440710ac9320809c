import { ROOT_CONTEXT } from "@opentelemetry/api";
import { ContextValues } from "./context-values.ts";
import { type Deployment, type DeploymentQueue, resolveWaiters } from "./deployment-queue.ts";
import type { Fault } from "./fault.ts";
import { removeContent } from "./user-dir.ts";
import type { ModulesLoaded, Ready } from "./messages.ts";
import type { CompleteOptions } from "./options.ts";
import { Backoff, ModuleExclusion, ModuleLoads, type Renewals, stopLimitMs } from "./restarts.ts";
import type { InstanceExit } from "./instance-events.ts";
import { NodeWrites } from "./node-writes.ts";
import { type Kept, RuntimeInstance } from "./runtime-instance.ts";
import { type DeploymentResult, type RevisionResult, type RuntimeProcessStats, pending } from "./runtime.ts";
import type { StateReporter } from "./state-reporter.ts";

type KeeperOptions = {
  readonly options: CompleteOptions;
  readonly queue: DeploymentQueue;
  readonly renewals: Renewals;
  readonly reporter: StateReporter;
  /** Called when the flows of a revision were started or have failed, or when their process has exited unexpectedly. */
  readonly onResult: (result: RevisionResult) => void;
};

/** Keeps one instance of the runtime running, and passes it the deployments of the queue. */
export class InstanceKeeper {
  readonly #options: CompleteOptions;
  readonly #queue: DeploymentQueue;
  readonly #renewals: Renewals;
  readonly #reporter: StateReporter;
  readonly #onResult: KeeperOptions["onResult"];
  readonly #backoff: Backoff;
  readonly #exclusion: ModuleExclusion;
  readonly #kept: Kept;
  #instance: RuntimeInstance | undefined;
  #httpPort = 0;
  #nodeTypes: ReadonlySet<string> | undefined;
  #timer: NodeJS.Timeout | undefined;
  #restarts = 0;
  #lastActivityMs = performance.now();
  /** The node because of which the last instance has ended unexpectedly. */
  #fault: Fault | undefined;
  /** True if the files of flows have to be removed before the next instance starts. */
  #mustClear = false;
  readonly #loads = new ModuleLoads();
  /** The removal in progress. */
  #clearing: Promise<void> | undefined;
  /** True if the instance was stopped for a new one. */
  #isRenewing = false;
  /** True if all nodes of the last deployment were started, without errors. */
  #isFlawless = true;
  /** True if no instance may be started. */
  #isStopped = false;

  constructor({ options, queue, renewals, reporter, onResult }: KeeperOptions) {
    this.#options = options;
    this.#queue = queue;
    this.#renewals = renewals;
    this.#reporter = reporter;
    this.#onResult = onResult;
    this.#backoff = new Backoff(options);
    this.#exclusion = new ModuleExclusion(options);
    const { contextDatabase: database, nodeStorage: storage, fence, log, redaction } = options;
    this.#kept = {
      context: database && new ContextValues({ database, token: fence?.token, log }),
      writes: storage && new NodeWrites({ storage, token: fence?.token, log, redact: redaction.redact }),
    };
  }

  /** Undefined until the next restart. */
  get current(): RuntimeInstance | undefined {
    return this.#instance;
  }

  /** The port of HTTP-in nodes; 0 until it is open. */
  get httpPort(): number {
    return this.#httpPort;
  }

  get nodeTypes(): ReadonlySet<string> | undefined {
    return this.#nodeTypes;
  }

  stats(): RuntimeProcessStats {
    return { restarts: this.#restarts, heartbeatAgeMs: performance.now() - this.#lastActivityMs };
  }

  /** Starts an instance, which deploys the newest revision when it is ready. Must be called once, unless it was stopped. */
  start(): void {
    this.#isStopped = false;
    clearTimeout(this.#timer);
    if (this.#mustClear || this.#clearing !== undefined) {
      this.#clearing ??= this.#clearThenStart();
      return;
    }
    this.#instance = this.#createInstance();
    this.#instance.start(this.#queue.next?.trace ?? ROOT_CONTEXT);
  }

  /** Must be called when a deployment was added to the queue: deploys it as soon as possible, despite earlier crashes. */
  deployQueued(): void {
    this.#backoff.reset();
    if (this.#instance === undefined) {
      this.start();
    } else {
      this.#deployNext();
    }
  }

  /** Must be called before the process is renewed on request: modules that were left out are loaded again. */
  retryModules(): void {
    this.#exclusion.reset();
  }

  /**
   * Makes the instance load modules that were added or enabled, and give up disabled ones, before the next deployment. Resolves with whether it has; if not, or it can't, for
   * which undefined is returned, a new process is needed for them.
   */
  loadModules(): Promise<boolean> | undefined {
    if (this.#exclusion.reason !== undefined || this.#instance?.canLoadModules !== true) {
      return undefined;
    }
    const loaded = this.#loads.request();
    this.#deployNext();
    return loaded;
  }

  /** Must be called before the process is renewed on request: removes the files of flows before the next process runs them. */
  clearFiles(): void {
    this.#mustClear = true;
  }

  /** Starts an instance after `stop`, as soon as the one before has exited, and forgets earlier crashes. */
  startAgain(): void {
    this.#backoff.reset();
    this.#backoff.endCrashLoop();
    this.#renewals.clear();
    this.retryModules();
    if (this.#instance === undefined) {
      this.start();
    } else {
      this.#isStopped = false;
      this.#isRenewing = true;
    }
  }

  /** Ends all processes, and starts none until `startAgain`. Resolves when they have exited. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    this.#isRenewing = false;
    clearTimeout(this.#timer);
    await Promise.all([this.#instance?.stop(), this.#clearing]);
    await Promise.all([this.#kept.context?.flush(), this.#kept.writes?.settle()]);
  }

  kill(): void {
    this.#instance?.kill();
  }

  async #clearThenStart(): Promise<void> {
    this.#mustClear = false;
    await removeContent(this.#options);
    this.#clearing = undefined;
    if (!this.#isStopped) {
      this.start();
    }
  }

  #createInstance(): RuntimeInstance {
    const options = this.#exclusion.reason === undefined ? this.#options : { ...this.#options, modulesDir: undefined };
    const instance = new RuntimeInstance(options, this.#kept, {
      hasNewerDeployment: () => this.#queue.next !== undefined || this.#isRenewing,
      onActivity: () => {
        this.#lastActivityMs = performance.now();
      },
      onReady: (ready) => this.#handleReady(instance, ready),
      onModulesLoaded: (loaded) => this.#handleModulesLoaded(loaded),
      onDeployed: (...deployed) => this.#handleDeployed(...deployed),
      onDistrust: (reason) => this.#renewals.distrust(reason),
      onExit: (exit) => {
        if (instance === this.#instance) {
          this.#handleExit(exit);
        }
      },
    });
    return instance;
  }

  #handleReady(instance: RuntimeInstance, { httpPort, nodeTypes }: Ready): void {
    this.#httpPort = httpPort;
    this.#nodeTypes = nodeTypes && new Set(nodeTypes);
    if (this.#queue.next !== undefined) {
      this.#deployNext();
    } else if (this.#backoff.crashLoop !== undefined) {
      this.#reporter.set("safe", `${this.#backoff.crashLoop}; its flows are held back until the next deployment`, {
        reason: "safe_mode",
        fault: this.#fault,
      });
      this.#deployNext();
    } else {
      void this.#deployStored(instance);
    }
  }

  /** Deploys the newest revision of the store, which may contain a deployment that was not queued. */
  async #deployStored(instance: RuntimeInstance): Promise<void> {
    await this.#queue.recordActive(this.#options);
    if (this.#isStopped || this.#instance !== instance || !instance.isEmpty) {
      return;
    }
    const revision = this.#queue.newest;
    if (revision === undefined) {
      this.#reporter.set("restarting", "the active revision could not be read");
      this.#timer = setTimeout(() => void this.#deployStored(instance), this.#options.restart.maxBackoffMs);
      return;
    }
    clearTimeout(this.#timer);
    this.#queue.add({ revision, type: "full", waiters: new Set(), trace: ROOT_CONTEXT });
    this.#deployNext();
  }

  /** Gives the next deployment to the instance if it is idle, or stops it if the deployment has to start in a new process. */
  #deployNext(): void {
    const { next } = this.#queue;
    const instance = this.#instance;
    if (instance === undefined || !instance.isIdle) {
      return;
    }
    if (this.#loads.isRequested && instance.canLoadModules) {
      this.#loads.begin();
      instance.loadModules();
      return;
    }
    this.#loads.refuse();
    if (next === undefined) {
      return;
    }
    if (this.#mustClear) {
      this.#renew(instance, next, "its files are removed", stopLimitMs(this.#options.nodeCloseTimeoutMs));
      return;
    }
    if (next.type === "reload" && !this.#isFlawless && !instance.isEmpty) {
      // The runtime finds installed modules when it starts only, and a missing one may have been installed since.
      this.retryModules();
      void instance.stop();
      return;
    }
    // A new process needs no other one, unless it has loaded modules of before.
    const isNew = instance.isEmpty && !instance.modules.isOutdated;
    const renewal = isNew ? undefined : this.#renewals.find(next.type, instance.hasRunNodes);
    if (renewal !== undefined) {
      this.#renew(instance, next, renewal.reason, renewal.stopMs);
      return;
    }
    const deployment = this.#queue.take() as Deployment;
    // Without waiters, it is not another deployment: the same flows are started again after their process has exited.
    if (instance.isEmpty && deployment.waiters.size > 0) {
      this.#renewals.clear();
    }
    instance.deploy(instance.isEmpty ? { ...deployment, type: "full" } : deployment);
  }

  #handleModulesLoaded({ nodeTypes, isRefused }: ModulesLoaded): void {
    this.#nodeTypes = nodeTypes && new Set(nodeTypes);
    if (isRefused === true) {
      this.#renewals.request("the process can't give up modules that were disabled");
      this.#loads.fail();
    } else {
      this.#loads.succeed();
    }
    this.#deployNext();
  }

  #renew(instance: RuntimeInstance, next: Deployment, reason: string, stopMs: number): void {
    this.#isRenewing = true;
    this.#reporter.set("starting", `in a new process: ${reason}`, { trace: next.trace });
    void instance.stop(stopMs);
  }

  #handleDeployed(deployment: Deployment, result: DeploymentResult, isFirst: boolean): void {
    // Flows of before may be the reason, for example because they have used up all file descriptors.
    if (!isFirst && result.missingTypes.some((type) => this.#nodeTypes?.has(type))) {
      this.#renewals.request("node types could not be loaded");
      this.#queue.add({ ...deployment, type: "full" });
      this.#deployNext();
      return;
    }
    this.#isFlawless = result.outcome === "running";
    const reasons = [result.message, this.#exclusion.reason].filter((reason) => reason !== undefined);
    const state = result.outcome === "failed" ? "failed" : "running";
    this.#reporter.set(state, reasons.join("; ") || undefined, { trace: deployment.trace });
    resolveWaiters(deployment, result);
    this.#onResult({ revision: deployment.revision, result });
    this.#deployNext();
  }

  #handleExit(exit: InstanceExit): void {
    clearTimeout(this.#timer);
    this.#instance = undefined;
    this.#httpPort = 0;
    this.#loads.fail();
    if (this.#isStopped) {
      return;
    }
    if (exit.undelivered !== undefined) {
      this.#queue.add(exit.undelivered);
    }
    const { delayMs, cause } = exit.isExpected ? this.#handleExpectedExit(exit) : this.#handleCrash(exit);
    // Otherwise the state has the reason already.
    if (!this.#isRenewing) {
      const { reason, fault } = exit.isExpected ? {} : exit;
      this.#reporter.set("restarting", cause, { trace: exit.unfinished?.trace, reason, fault });
    }
    this.#isRenewing = false;
    this.#timer = setTimeout(() => this.start(), delayMs);
  }

  #handleExpectedExit({ unfinished, cause }: InstanceExit): { delayMs: number; cause: string } {
    this.#backoff.endCrashLoop();
    resolveWaiters(unfinished, pending);
    return { delayMs: 0, cause };
  }

  #handleCrash(exit: InstanceExit): { delayMs: number; cause: string } {
    this.#restarts += 1;
    this.#fault = exit.fault;
    this.#exclusion.recordExit(exit);
    const { delayMs, cause } = this.#backoff.recordExit(exit);
    const result: DeploymentResult = { outcome: "failed", missingTypes: [], message: cause };
    resolveWaiters(exit.unfinished, result);
    const revision = exit.unfinished?.revision ?? exit.lastRevision;
    if (revision !== undefined) {
      this.#onResult({ revision, result });
    }
    return { delayMs, cause };
  }
}
