import type { DeploymentType } from "../flows/configuration.ts";
import { restartsAllNodes } from "./deployment.ts";
import type { CompleteOptions } from "./options.ts";

export type BackoffLimits = {
  /** Delay before the first restart in milliseconds; doubles with each further one, up to `maxBackoffMs`, until a run is not short. */
  readonly backoffMs: number;
  readonly maxBackoffMs: number;
  /** A run is short if the child ran flows for less than this. */
  readonly shortLifeMs: number;
  /** The number of consecutive short runs with flows after which the child starts in safe mode, without flows. */
  readonly safeModeAfter: number;
};

export type Backoff = {
  /**
   * Records the unexpected exit of a child that ran flows for `flowsRanMs`, and returns when to start the next one and whether to
   * start it without flows. Only exits with flows count towards a crash loop: any other exit has a cause outside of the flows,
   * which may be temporary.
   */
  recordExit(exit: { readonly flowsRanMs: number; readonly hadFlows: boolean }): {
    readonly delayMs: number;
    readonly isCrashLoop: boolean;
  };
  /** Forgets all recorded exits, because there is a new deployment to try. */
  reset(): void;
};

export function createBackoff(limits: BackoffLimits): Backoff {
  let restarts = 0;
  let shortRuns = 0;

  const reset = (): void => {
    restarts = 0;
    shortRuns = 0;
  };
  return {
    recordExit({ flowsRanMs, hadFlows }) {
      if (flowsRanMs >= limits.shortLifeMs) {
        reset();
      } else if (hadFlows) {
        shortRuns += 1;
      }
      restarts += 1;
      return {
        delayMs: Math.min(limits.backoffMs * 2 ** (restarts - 1), limits.maxBackoffMs),
        isCrashLoop: shortRuns >= limits.safeModeAfter,
      };
    },
    reset,
  };
}

/** Why a deployment starts in a new process. */
type Renewal = {
  readonly reason: string;
  /** How long the previous process may take to stop; 0: it is killed at once. */
  readonly stopMs: number;
};

/** Decides which deployments start in a new process. */
export type Renewals = {
  /**
   * Makes the next deployment start in a new process, because code of the current flows may disturb it. Returns false if it
   * already would, with the same `stopMs` (see `Renewal`) or less.
   */
  distrust(reason: string, stopMs?: number): boolean;
  /** Makes the next deployment start in a new process, on demand. */
  request(): void;
  /** Undefined: a deployment of this type runs in the current process. `hasRunNodes`: nodes have run in it before. */
  find(type: DeploymentType, hasRunNodes: boolean): Renewal | undefined;
  /** Must be called when a deployment has started in a new process, but not when the same flows are restarted after a failure. */
  clear(): void;
};

/** Flows that are not trusted could delay their own end. */
const distrustedStopMs = 500;

export function createRenewals({
  freshProcess,
  nodeCloseTimeoutMs,
  log,
}: Pick<CompleteOptions, "freshProcess" | "nodeCloseTimeoutMs" | "log">): Renewals {
  const stopMs = stopLimitMs(nodeCloseTimeoutMs);
  let distrusted: Renewal | undefined;
  let isRequested = false;

  return {
    distrust(reason, limitMs = distrustedStopMs) {
      if (distrusted !== undefined && distrusted.stopMs <= limitMs) {
        return false;
      }
      distrusted = { reason, stopMs: limitMs };
      log({ level: "warn", message: `the next deployment starts in a new process: ${reason}` }, "runtime");
      return true;
    },
    request() {
      isRequested = true;
    },
    find(type, hasRunNodes) {
      if (distrusted !== undefined) {
        return distrusted;
      }
      if (isRequested) {
        return { reason: "a restart was requested", stopMs };
      }
      const isConfigured = freshProcess === "always" || (freshProcess === "full" && restartsAllNodes({ type }));
      return isConfigured && hasRunNodes ? { reason: `runtime.freshProcess is ${freshProcess}`, stopMs } : undefined;
    },
    clear() {
      distrusted = undefined;
      isRequested = false;
    },
  };
}

/** How long a process may take to stop. */
export function stopLimitMs(nodeCloseTimeoutMs: number): number {
  return nodeCloseTimeoutMs + 1_000;
}
