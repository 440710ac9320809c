import { type Context, ROOT_CONTEXT } from "@opentelemetry/api";
import type { DeploymentType } from "../flows/configuration.ts";
import type { Revision } from "../store/revision.ts";
import { createListeners } from "../listeners.ts";
import { createBackoff } from "./backoff.ts";
import {
  type Deployment,
  type Waiter,
  createWaiter,
  deploymentBudgetMs,
  includesDeployment,
  mergeDeployments,
  newerRevision,
  pending,
  resolveWaiters,
  running,
} from "./deployment.ts";
import { readFlowRuntime } from "./flow-runtime.ts";
import { lowerPriority } from "./lower-priority.ts";
import { type RuntimeOptions, completeOptions } from "./options.ts";
import { createRenewals } from "./renewals.ts";
import { type InstanceExit, type RuntimeInstance, prepareInstance } from "./runtime-instance.ts";
import type { DeploymentResult, RevisionResult, Runtime } from "./runtime.ts";
import { createStateReporter } from "./state-reporter.ts";
import { prepareUserDir } from "./user-dir.ts";

/**
 * Starts the flow runtime in a separate process in the background, and keeps the newest revision running. Throws if `dir`
 * can't be created; failures of the flows are reported by `status`.
 */
export function openRuntime(runtimeOptions: RuntimeOptions): Runtime {
  const options = completeOptions({ ...runtimeOptions, dir: prepareUserDir(runtimeOptions.dir) });
  if (options.launcher.length === 0) {
    const message =
      "setpriv of util-linux is missing or can't start programs: a hostile flow can keep running after the service is killed. Install util-linux";
    options.log({ level: "warn", message }, "runtime");
  }
  const flowRuntime = readFlowRuntime();
  const backoff = createBackoff(options.restart);
  const renewals = createRenewals(options);
  const reporter = createStateReporter(options.log);
  const results = createListeners<RevisionResult>();
  let lastResult: RevisionResult | undefined;

  let isReleased = false;
  let httpPort = 0;
  let nodeTypes: ReadonlySet<string> | undefined;
  /** Undefined until the next restart. */
  let instance: RuntimeInstance | undefined;
  /** The next one, if it was created in advance. */
  let prepared: RuntimeInstance | undefined;
  let timer: NodeJS.Timeout | undefined;
  let restarts = 0;
  let lastActivityMs = performance.now();
  /** The newest known revision. When an instance starts, the store may have a newer one. */
  let newest: Revision | undefined;
  /** The next deployment. */
  let queued: Deployment | undefined;
  /** The result of the last completed deployment. */
  let result: DeploymentResult = pending;
  /** Why the next instance must start without flows. */
  let crashLoop: string | undefined;
  /** Whether the instance was stopped for a new one. */
  let isRenewing = false;

  function start(): void {
    clearTimeout(timer);
    instance = prepared ?? prepare();
    prepared = undefined;
    instance.start(queued?.trace ?? ROOT_CONTEXT);
  }

  function prepare(): RuntimeInstance {
    const created = prepareInstance(options, {
      onDistrust: (reason) => void renewals.distrust(reason),
      onActivity() {
        lastActivityMs = performance.now();
      },
      hasNewerDeployment: () => queued !== undefined,
      onReady(ready) {
        httpPort = ready.httpPort;
        nodeTypes = ready.nodeTypes && new Set(ready.nodeTypes);
        if (queued !== undefined) deployNext();
        else if (crashLoop !== undefined) {
          reporter.set("safe", `${crashLoop}; its flows are held back until the next deployment`);
        } else void deployStored(created);
      },
      onDeployed(deployment, { failure, missingTypes, failedNodes }) {
        result =
          failure === undefined
            ? { ...running, failedNodes }
            : { outcome: "failed", missingTypes, failedNodes, message: failure };
        reporter.set(failure === undefined ? "running" : "failed", failure, deployment.trace);
        resolveWaiters(deployment, result);
        report(deployment.revision, result);
        deployNext();
      },
      onExit(exit) {
        if (created === prepared) prepared = undefined;
        else handleExit(exit);
      },
    });
    return created;
  }

  /** Deploys the newest revision of the store, which may contain a deployment that was not passed to `apply`. */
  async function deployStored(started: RuntimeInstance): Promise<void> {
    try {
      newest = newerRevision(newest, await options.active());
    } catch (error) {
      options.log({ level: "error", message: `the active revision could not be read: ${describe(error)}` }, "runtime");
    }
    if (reporter.state === "stopped" || instance !== started || !started.isEmpty()) return;
    if (newest === undefined) {
      reporter.set("restarting", "the active revision could not be read");
      timer = setTimeout(() => void deployStored(started), options.restart.maxBackoffMs);
      return;
    }
    clearTimeout(timer);
    queued = mergeDeployments(queued, { revision: newest, type: "full", waiters: new Set(), trace: ROOT_CONTEXT });
    deployNext();
  }

  function deployNext(): void {
    if (queued === undefined || newest === undefined || instance === undefined || !instance.isIdle()) return;
    if (queued.type === "reload" && reporter.state === "failed") {
      // The runtime finds installed modules when it starts only, and a missing one may have been installed since.
      void instance.stop();
      return;
    }
    const renewal = instance.isEmpty() ? undefined : renewals.find(queued.type);
    if (renewal !== undefined) {
      isRenewing = true;
      reporter.set("starting", `in a new process: ${renewal.reason}`, queued.trace);
      void instance.stop(renewal.stopMs);
      return;
    }
    const next = queued;
    queued = undefined;
    // Without waiters, it is not another deployment: the same flows are started again after their process has exited.
    if (instance.isEmpty() && next.waiters.size > 0) renewals.clear();
    instance.deploy({ ...next, revision: newest, type: instance.isEmpty() ? "full" : next.type });
  }

  function handleExit(exit: InstanceExit): void {
    clearTimeout(timer);
    instance = undefined;
    httpPort = 0;
    if (reporter.state === "stopped") return;
    if (!exit.isExpected) restarts += 1;
    if (exit.undelivered !== undefined) queued = mergeDeployments(queued, exit.undelivered);
    const { delayMs, isCrashLoop } = exit.isExpected ? { delayMs: 0, isCrashLoop: false } : backoff.recordExit(exit);
    let cause = exit.cause;
    if (!isCrashLoop) crashLoop = undefined;
    else if (exit.hadFlows) {
      cause = `it ended ${options.restart.safeModeAfter} times in a row, most recently because ${exit.cause}`;
      crashLoop = cause;
    }
    // Otherwise the state has the reason already.
    if (!isRenewing) reporter.set("restarting", cause, exit.unfinished?.trace);
    isRenewing = false;
    timer = setTimeout(start, delayMs);
    // An instance that was killed for a newer deployment did not crash.
    const crash: DeploymentResult = { outcome: "crashed", missingTypes: [], message: cause };
    resolveWaiters(exit.unfinished, exit.isExpected ? pending : crash);
    const crashedRevision = exit.isExpected
      ? undefined
      : (exit.unfinished?.revision ?? (isCrashLoop ? newest : undefined));
    if (crashedRevision !== undefined) report(crashedRevision, crash);
  }

  /** Applies a revision as the next deployment. */
  function enqueue(revision: Revision, type: DeploymentType, trace: Context, waiter: Waiter): void {
    newest = newerRevision(newest, revision);
    queued = mergeDeployments(queued, { revision: newest, type, waiters: new Set([waiter]), trace });
    backoff.reset();
    if (instance === undefined) start();
    else deployNext();
  }

  function report(revision: Revision, revisionResult: DeploymentResult): void {
    lastResult = { revision, result: revisionResult };
    results.notify(lastResult);
  }

  function release(): void {
    isReleased = true;
    resolveWaiters(queued, pending);
    resolveWaiters(instance?.currentDeployment(), pending);
  }

  async function stop(): Promise<void> {
    clearTimeout(timer);
    reporter.set("stopped");
    release();
    await Promise.all([instance?.stop(), prepared?.stop(0)]);
  }

  start();
  let stopped: Promise<void> | undefined;

  return {
    async apply(revision, type, trace = ROOT_CONTEXT, wait = {}) {
      if (isReleased || reporter.state === "stopped") return pending;
      if (instance?.hasApplied({ revision, type })) return result;
      newest = newerRevision(newest, revision);
      const waiter = createWaiter(deploymentBudgetMs(newest, options.deadlineMs), wait);
      const current = instance?.currentDeployment();
      if (current !== undefined && includesDeployment(current, { revision, type })) {
        current.waiters.add(waiter);
        return waiter.result;
      }
      enqueue(newest, type, trace, waiter);
      return waiter.result;
    },
    async restart(revision, trace = ROOT_CONTEXT, wait = {}) {
      if (isReleased || reporter.state === "stopped") return pending;
      const waiter = createWaiter(deploymentBudgetMs(revision, options.deadlineMs), wait);
      renewals.request();
      enqueue(revision, "full", trace, waiter);
      return waiter.result;
    },
    distrust(reason) {
      if (!renewals.distrust(reason, 0) || instance === undefined || reporter.state === "stopped") return;
      // Its flows would take the CPU from the operators and from the next process.
      if (instance.processId !== undefined) lowerPriority(instance.processId);
      // Once: it may exit, for example because there is not enough memory.
      prepared ??= prepare();
    },
    processStats: () => ({ restarts, heartbeatAgeMs: performance.now() - lastActivityMs }),
    processId: () => instance?.processId,
    nodeTypes: () => nodeTypes,
    status: () => ({ ...flowRuntime, state: reporter.state, httpPort, message: reporter.message }),
    onChange: (listener) => reporter.onChange(listener),
    lastResult: () => lastResult,
    onResult: (listener) => results.add(listener),
    release,
    kill() {
      instance?.kill();
      prepared?.kill();
    },
    [Symbol.asyncDispose]: () => (stopped ??= stop()),
  };
}

function describe(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
