import { ROOT_CONTEXT } from "@opentelemetry/api";
import type { Revision } from "../store/revision.ts";
import { type Deployment, type DeploymentQueue, resolveWaiters } from "./deployment.ts";
import { hasModules, removeContent } from "./folders.ts";
import type { CompleteOptions } from "./options.ts";
import { type Renewals, createBackoff, stopLimitMs } from "./restarts.ts";
import { type InstanceExit, type RuntimeInstance, prepareInstance } from "./runtime-instance.ts";
import { type DeploymentResult, type RuntimeProcessStats, pending, running } from "./runtime.ts";
import type { StateReporter } from "./state-reporter.ts";

/** Keeps one instance of the runtime running, and passes it the deployments of the queue. */
export type InstanceKeeper = {
  /** Undefined until the next restart. */
  current(): RuntimeInstance | undefined;
  /** The port of HTTP-in nodes; 0 until it is open. */
  httpPort(): number;
  nodeTypes(): ReadonlySet<string> | undefined;
  stats(): RuntimeProcessStats;
  /** Must be called when a deployment was added to the queue: deploys it as soon as possible, despite earlier crashes. */
  deployQueued(): void;
  /** Must be called before the process is renewed on request: modules that were left out are loaded again. */
  retryModules(): void;
  /** Must be called before the process is renewed on request: removes the files of flows before the next process runs them. */
  clearFiles(): void;
  /** Creates the next instance in advance. */
  prepareNext(): void;
  /** Must be called when the state is `stopped`. Resolves when all processes have exited. */
  stop(): Promise<void>;
  kill(): void;
};

export type KeeperOptions = {
  readonly options: CompleteOptions;
  readonly queue: DeploymentQueue;
  readonly renewals: Renewals;
  readonly reporter: StateReporter;
  /** Called when the flows of a revision were started or have failed, or when their process has exited unexpectedly. */
  readonly onResult: (revision: Revision, result: DeploymentResult) => void;
};

export function openInstanceKeeper({ options, queue, renewals, reporter, onResult }: KeeperOptions): InstanceKeeper {
  const backoff = createBackoff(options.restart);
  let instance: RuntimeInstance | undefined;
  let prepared: RuntimeInstance | undefined;
  let httpPort = 0;
  let nodeTypes: ReadonlySet<string> | undefined;
  let timer: NodeJS.Timeout | undefined;
  let restarts = 0;
  let lastActivityMs = performance.now();
  /** Why the next instance must start without flows. */
  let crashLoop: string | undefined;
  /** The number of processes in a row that ended without flows. */
  let loadFailures = 0;
  /** Why the next instances must start without added modules. */
  let withoutModules: string | undefined;
  /** Whether the files of flows have to be removed before the next instance starts. */
  let mustClear = false;
  /** The removal in progress. */
  let clearing: Promise<void> | undefined;
  /** Whether the instance was stopped for a new one. */
  let isRenewing = false;

  function start(): void {
    clearTimeout(timer);
    if (mustClear || clearing !== undefined) {
      clearing ??= clearThenStart();
      return;
    }
    instance = prepared ?? prepare();
    prepared = undefined;
    instance.start(queue.next()?.trace ?? ROOT_CONTEXT);
  }

  async function clearThenStart(): Promise<void> {
    mustClear = false;
    await removeContent(options);
    clearing = undefined;
    if (reporter.state !== "stopped") {
      start();
    }
  }

  function prepare(): RuntimeInstance {
    const used = withoutModules === undefined ? options : { ...options, modulesDir: undefined };
    const created = prepareInstance(used, {
      onDistrust: (reason) => void renewals.distrust(reason),
      onActivity() {
        lastActivityMs = performance.now();
      },
      hasNewerDeployment: () => queue.next() !== undefined,
      onReady(ready) {
        httpPort = ready.httpPort;
        nodeTypes = ready.nodeTypes && new Set(ready.nodeTypes);
        if (queue.next() !== undefined) {
          deployNext();
        } else if (crashLoop !== undefined) {
          reporter.set("safe", `${crashLoop}; its flows are held back until the next deployment`);
        } else {
          void deployStored(created);
        }
      },
      onDeployed(deployment, { failure, missingTypes, lacksModules }) {
        const result: DeploymentResult =
          failure === undefined ? running : { outcome: "failed", missingTypes, lacksModules, message: failure };
        const message = [failure, withoutModules].filter((part) => part !== undefined).join("; ") || undefined;
        reporter.set(failure === undefined ? "running" : "failed", message, deployment.trace);
        resolveWaiters(deployment, result);
        onResult(deployment.revision, result);
        deployNext();
      },
      onExit(exit) {
        if (created === prepared) {
          prepared = undefined;
        } else {
          handleExit(exit);
        }
      },
    });
    return created;
  }

  /** Deploys the newest revision of the store, which may contain a deployment that was not queued. */
  async function deployStored(started: RuntimeInstance): Promise<void> {
    try {
      queue.record(await options.active());
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      options.log({ level: "error", message: `the active revision could not be read: ${reason}` }, "runtime");
    }
    if (reporter.state === "stopped" || instance !== started || !started.isEmpty()) {
      return;
    }
    const revision = queue.newest();
    if (revision === undefined) {
      reporter.set("restarting", "the active revision could not be read");
      timer = setTimeout(() => void deployStored(started), options.restart.maxBackoffMs);
      return;
    }
    clearTimeout(timer);
    queue.add({ revision, type: "full", waiters: new Set(), trace: ROOT_CONTEXT });
    deployNext();
  }

  function deployNext(): void {
    const next = queue.next();
    if (next === undefined || instance === undefined || !instance.isIdle()) {
      return;
    }
    if (mustClear) {
      reporter.set("starting", "in a new process: its files are removed", next.trace);
      isRenewing = true;
      void instance.stop(stopLimitMs(options.nodeCloseTimeoutMs));
      return;
    }
    if (next.type === "reload" && reporter.state === "failed") {
      // The runtime finds installed modules when it starts only, and a missing one may have been installed since.
      retryModules();
      void instance.stop();
      return;
    }
    const renewal = instance.isEmpty() ? undefined : renewals.find(next.type, instance.hasRunNodes());
    if (renewal !== undefined) {
      isRenewing = true;
      reporter.set("starting", `in a new process: ${renewal.reason}`, next.trace);
      void instance.stop(renewal.stopMs);
      return;
    }
    const deployment = queue.take() as Deployment;
    // Without waiters, it is not another deployment: the same flows are started again after their process has exited.
    if (instance.isEmpty() && deployment.waiters.size > 0) {
      renewals.clear();
    }
    instance.deploy(instance.isEmpty() ? { ...deployment, type: "full" } : deployment);
  }

  function handleExit(exit: InstanceExit): void {
    clearTimeout(timer);
    instance = undefined;
    httpPort = 0;
    if (reporter.state === "stopped") {
      return;
    }
    if (!exit.isExpected) {
      restarts += 1;
      countLoadFailure(exit);
    }
    if (exit.undelivered !== undefined) {
      queue.add(exit.undelivered);
    }
    const { delayMs, isCrashLoop } = exit.isExpected ? { delayMs: 0, isCrashLoop: false } : backoff.recordExit(exit);
    const cause = isCrashLoop && exit.hadFlows ? describeCrashLoop(exit) : exit.cause;
    if (!isCrashLoop) {
      crashLoop = undefined;
    } else if (exit.hadFlows) {
      crashLoop = cause;
    }
    if (exit.isExpected) {
      resolveWaiters(exit.unfinished, pending);
    } else {
      settleCrash(exit, cause);
    }
    // Otherwise the state has the reason already.
    if (!isRenewing) {
      reporter.set("restarting", cause, exit.unfinished?.trace);
    }
    isRenewing = false;
    timer = setTimeout(start, delayMs);
  }

  /** A module that ends the process while it is loaded would keep the flows from running for good. */
  function countLoadFailure({ isLoadFailure, cause }: InstanceExit): void {
    loadFailures = isLoadFailure ? loadFailures + 1 : 0;
    const { modulesDir, restart } = options;
    const { safeModeAfter } = restart;
    if (loadFailures < safeModeAfter || withoutModules !== undefined) {
      return;
    }
    if (modulesDir === undefined || !hasModules(modulesDir)) {
      return;
    }
    withoutModules = `without added modules, since it ended ${safeModeAfter} times in a row before it had flows, most recently because ${cause}`;
    const advice = 'remove the faulty one with "flowgate module remove", then run "flowgate runtime restart"';
    options.log({ level: "error", message: `the runtime starts ${withoutModules}: ${advice}` }, "runtime");
  }

  function retryModules(): void {
    loadFailures = 0;
    withoutModules = undefined;
  }

  function describeCrashLoop({ cause }: InstanceExit): string {
    return `it ended ${options.restart.safeModeAfter} times in a row, most recently because ${cause}`;
  }

  function settleCrash({ unfinished, lastRevision }: InstanceExit, message: string): void {
    const crash: DeploymentResult = { outcome: "crashed", missingTypes: [], message };
    resolveWaiters(unfinished, crash);
    const revision = unfinished?.revision ?? lastRevision;
    if (revision !== undefined) {
      onResult(revision, crash);
    }
  }

  start();

  return {
    current: () => instance,
    httpPort: () => httpPort,
    nodeTypes: () => nodeTypes,
    stats: () => ({ restarts, heartbeatAgeMs: performance.now() - lastActivityMs }),
    deployQueued() {
      backoff.reset();
      if (instance === undefined) {
        start();
      } else {
        deployNext();
      }
    },
    retryModules,
    clearFiles() {
      mustClear = true;
    },
    prepareNext() {
      prepared ??= prepare();
    },
    async stop() {
      clearTimeout(timer);
      await Promise.all([instance?.stop(), prepared?.stop(0), clearing]);
    },
    kill() {
      instance?.kill();
      prepared?.kill();
    },
  };
}
