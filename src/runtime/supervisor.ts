import { EventEmitter } from "node:events";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { type Context, ROOT_CONTEXT } from "@opentelemetry/api";
import type { Revision } from "../store/store.ts";
import { formatTraceparent } from "../telemetry/trace.ts";
import { createBackOff } from "./back-off.ts";
import {
  type Deployment,
  covers,
  crashed,
  createWaiter,
  deploymentBudgetMs,
  mergeDeployments,
  newer,
  pending,
  running,
  settle,
} from "./deployment.ts";
import { type RuntimeInstance, type InstanceExit, type InstanceEvents, startInstance } from "./runtime-instance.ts";
import { type RuntimeOptions, completeOptions } from "./options.ts";
import type { DeploymentResult, Runtime, RuntimeState } from "./runtime.ts";
import { prepareUserDir } from "./user-dir.ts";

/**
 * Starts the flow runtime in a process of its own, in the background, and keeps it running the newest
 * revision. What can be wrong with the flows shows in the status; a `dir` that can't be made throws.
 */
export function openRuntime(given: RuntimeOptions): Runtime {
  const options = completeOptions({ ...given, dir: prepareUserDir(given.dir) });
  const version = flowRuntimeVersion();
  const backOff = createBackOff(options.restart);
  const changes = new EventEmitter();

  let state: RuntimeState = "starting";
  let message: string | undefined;
  let isReleased = false;
  let httpPort = 0;
  /** The child of now; none while a restart is due. */
  let life: RuntimeInstance | undefined;
  let timer: NodeJS.Timeout | undefined;
  let restarts = 0;
  let heardMs = performance.now();
  /** Known of; the store may have a newer one when the child starts. */
  let newest: Revision | undefined;
  /** What the child will be given next. */
  let waiting: Deployment | undefined;
  /** Of the last deployment that a child has answered. */
  let result: DeploymentResult = pending;
  /** Why the flows are to be held back; undefined where they are not. */
  let crashLoop: string | undefined;

  function tell(next: RuntimeState, why?: string, trace: Context = ROOT_CONTEXT): void {
    const traceparent = formatTraceparent(trace);
    const isNews = next !== state || why !== message;
    state = next;
    message = why;
    const level = next === "running" || next === "stopped" ? "info" : "warn";
    options.log(
      {
        level: isNews ? level : "debug",
        message: `the flow runtime is ${next}${why === undefined ? "" : `: ${why}`}`,
        ...(traceparent !== undefined && { traceparent }),
      },
      "runtime",
    );
    changes.emit("change");
  }

  function start(heldBackBecause: string | undefined): void {
    clearTimeout(timer);
    const events: InstanceEvents = {
      heard() {
        heardMs = performance.now();
      },
      isOvertaken: () => waiting !== undefined,
      booted(port) {
        httpPort = port;
        if (waiting !== undefined) deployNext();
        else if (heldBackBecause !== undefined) {
          tell("safe", `${heldBackBecause}; its flows are held back until the next deployment`);
        } else void deployStored(born);
      },
      deployed(deployment, failure, missingTypes) {
        result = failure === undefined ? running : { outcome: "failed", missingTypes };
        tell(failure === undefined ? "running" : "failed", failure, deployment.trace);
        settle(deployment, result);
        deployNext();
      },
      over,
    };
    const born = startInstance(options, events, waiting?.trace ?? ROOT_CONTEXT);
    life = born;
  }

  /** A fresh child gets what the store has: nothing tells us of a deployment that failed to reach us. */
  async function deployStored(born: RuntimeInstance): Promise<void> {
    try {
      newest = newer(newest, await options.active());
    } catch (error) {
      options.log({ level: "error", message: `the active revision could not be read: ${describe(error)}` }, "runtime");
    }
    if (state === "stopped" || life !== born || !born.isEmpty()) return;
    if (newest === undefined) {
      tell("restarting", "the active revision could not be read");
      timer = setTimeout(() => void deployStored(born), options.restart.maxBackoffMs);
      return;
    }
    clearTimeout(timer);
    waiting = mergeDeployments(waiting, { revision: newest, type: "full", waiters: new Set(), trace: ROOT_CONTEXT });
    deployNext();
  }

  function deployNext(): void {
    if (waiting === undefined || newest === undefined || life === undefined || !life.isIdle()) return;
    if (waiting.type === "reload" && state === "failed") {
      // The runtime looks for node modules when it starts only, and one that was missing may be there now.
      void life.stop();
      return;
    }
    const next = waiting;
    waiting = undefined;
    life.deploy({ ...next, revision: newest, type: life.isEmpty() ? "full" : next.type });
  }

  function over(end: InstanceExit): void {
    clearTimeout(timer);
    life = undefined;
    httpPort = 0;
    if (state === "stopped") return;
    if (!end.isWanted) restarts += 1;
    if (end.unseen !== undefined) waiting = mergeDeployments(waiting, end.unseen);
    // The deployment stands, and the next child starts with it; the status tells what became of this one.
    const { delayMs, isCrashLoop } = end.isWanted ? { delayMs: 0, isCrashLoop: false } : backOff.died(end);
    let why = end.cause;
    if (!isCrashLoop) crashLoop = undefined;
    else if (end.hadFlows) {
      why = `it ended ${options.restart.safeModeAfter} times in a row, at last because ${end.cause}`;
      crashLoop = why;
    }
    tell("restarting", why, end.unfinished?.trace);
    timer = setTimeout(() => start(crashLoop), delayMs);
    // One that was ended for a newer deployment did not crash.
    settle(end.unfinished, end.isWanted ? pending : crashed);
  }

  function release(): void {
    isReleased = true;
    settle(waiting, pending);
    settle(life?.deploying(), pending);
  }

  async function stop(): Promise<void> {
    clearTimeout(timer);
    tell("stopped");
    release();
    await life?.stop();
  }

  start(undefined);
  let stopped: Promise<void> | undefined;

  return {
    async apply(revision, type, trace = ROOT_CONTEXT, patience = {}) {
      if (isReleased || state === "stopped") return pending;
      if (life?.hasDone({ revision, type })) return result;
      newest = newer(newest, revision);
      const waiter = createWaiter(deploymentBudgetMs(newest, options.deadlineMs), patience);
      const deploying = life?.deploying();
      if (deploying !== undefined && covers(deploying, { revision, type })) {
        // The child has just started with it.
        deploying.waiters.add(waiter);
        return waiter.settled;
      }
      waiting = mergeDeployments(waiting, { revision: newest, type, waiters: new Set([waiter]), trace });
      backOff.reset();
      if (life === undefined) start(undefined);
      else deployNext();
      return waiter.settled;
    },
    vitals: () => ({ restarts, silentMs: performance.now() - heardMs }),
    status: () => ({ name: "node-red", version, state, httpPort, message }),
    onChange: (listener) => void changes.on("change", listener),
    release,
    kill: () => life?.kill(),
    [Symbol.asyncDispose]: () => (stopped ??= stop()),
  };
}

function flowRuntimeVersion(): string {
  const manifest = createRequire(import.meta.url).resolve("@node-red/runtime/package.json");
  const { version } = JSON.parse(readFileSync(manifest, "utf8")) as { version: string };
  return version;
}

function describe(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
