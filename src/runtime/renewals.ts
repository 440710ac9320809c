import type { DeploymentType } from "../flows/configuration.ts";
import { restartsAllNodes } from "./deployment.ts";
import type { CompleteOptions } from "./options.ts";

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
