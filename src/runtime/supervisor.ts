import { ROOT_CONTEXT } from "@opentelemetry/api";
import { createListeners } from "../base/listeners.ts";
import { logBoundary, withLauncher } from "./boundary.ts";
import { lowerPriority } from "./child-process.ts";
import {
  createDeploymentQueue,
  createWaiter,
  deploymentBudgetMs,
  includesDeployment,
  resolveWaiters,
} from "./deployment.ts";
import { describeWritableModules, prepareModulesDir, prepareUserDir, warnOfUnloadedModules } from "./folders.ts";
import { openInstanceKeeper } from "./instance-keeper.ts";
import { type CompleteOptions, type RuntimeOptions, completeOptions } from "./options.ts";
import { createRenewals } from "./restarts.ts";
import { type RevisionResult, type Runtime, isIncomplete, pending } from "./runtime.ts";
import { createStateReporter, readFlowRuntime } from "./state-reporter.ts";

/**
 * Starts the flow runtime in a separate process in the background, and keeps the newest revision running. Throws if `dir`
 * can't be created; failures of the flows are reported by `status`.
 */
export function openRuntime(runtimeOptions: RuntimeOptions): Runtime {
  const options = openFolders(runtimeOptions);
  logBoundary(options);
  const flowRuntime = readFlowRuntime();
  const queue = createDeploymentQueue();
  const renewals = createRenewals(options);
  const reporter = createStateReporter(options.log);
  const results = createListeners<RevisionResult>();
  let lastResult: RevisionResult | undefined;
  const keeper = openInstanceKeeper({
    options,
    queue,
    renewals,
    reporter,
    onResult(revision, result) {
      lastResult = { revision, result };
      results.notify(lastResult);
    },
  });
  let isReleased = false;
  let stopped: Promise<void> | undefined;

  const isOver = (): boolean => isReleased || reporter.state === "stopped";

  function release(): void {
    isReleased = true;
    resolveWaiters(queue.next(), pending);
    resolveWaiters(keeper.current()?.currentDeployment(), pending);
  }

  function stop(): Promise<void> {
    reporter.set("stopped");
    release();
    return keeper.stop();
  }

  return {
    async apply(revision, type, trace = ROOT_CONTEXT, wait = {}) {
      if (isOver()) {
        return pending;
      }
      const instance = keeper.current();
      if (instance?.hasApplied({ revision, type })) {
        return lastResult?.result ?? pending;
      }
      const newest = queue.record(revision);
      const waiter = createWaiter(deploymentBudgetMs(newest, options.deadlineMs), wait);
      const current = instance?.currentDeployment();
      if (current !== undefined && includesDeployment(current, { revision, type })) {
        current.waiters.add(waiter);
        return waiter.result;
      }
      queue.add({ revision: newest, type, waiters: new Set([waiter]), trace });
      keeper.deployQueued();
      return waiter.result;
    },
    async restart(revision, trace = ROOT_CONTEXT, { clearFiles = false, ...wait } = {}) {
      if (isOver()) {
        return pending;
      }
      if (clearFiles) {
        keeper.clearFiles();
      }
      const waiter = createWaiter(deploymentBudgetMs(revision, options.deadlineMs), wait);
      renewals.request();
      keeper.retryModules();
      queue.add({ revision: queue.record(revision), type: "full", waiters: new Set([waiter]), trace });
      keeper.deployQueued();
      return waiter.result;
    },
    distrust(reason) {
      const instance = keeper.current();
      if (!renewals.distrust(reason, 0) || instance === undefined || reporter.state === "stopped") {
        return;
      }
      // Its flows would take the CPU from the operators and from the next process.
      const processId = instance.processId();
      if (processId !== undefined) {
        lowerPriority(processId);
      }
      // Once: it may exit, for example because there is not enough memory.
      keeper.prepareNext();
    },
    processStats: () => keeper.stats(),
    processId: () => keeper.current()?.processId(),
    nodeTypes: () => keeper.nodeTypes(),
    status: () => ({
      ...flowRuntime,
      state: reporter.state,
      httpPort: keeper.httpPort(),
      message: reporter.message,
      boundary: options.launcher,
    }),
    onChange: (listener) => reporter.onChange(listener),
    lastResult: () => lastResult,
    incompleteSeq: () => (lastResult && isIncomplete(lastResult.result) ? lastResult.revision.seq : undefined),
    onResult: (listener) => results.add(listener),
    release,
    kill: () => keeper.kill(),
    [Symbol.asyncDispose]: () => (stopped ??= stop()),
  };
}

/** Creates the folders of the runtime, and completes its options with their real paths. */
function openFolders(options: RuntimeOptions): CompleteOptions {
  const { log } = options;
  const dir = prepareUserDir(options.dir);
  const modulesDir = options.modulesDir === undefined ? undefined : prepareModulesDir(options.modulesDir);
  const completed = withLauncher(completeOptions({ ...options, dir, modulesDir }));
  const problem = modulesDir && describeWritableModules(modulesDir, [dir, ...completed.allow.fileSystemWrite]);
  if (problem !== undefined) {
    log({ level: "error", message: problem }, "runtime");
  }
  warnOfUnloadedModules(dir, modulesDir, log);
  return problem === undefined ? completed : { ...completed, modulesDir: undefined };
}
