import { heartbeatIntervalMs } from "./messages.ts";
import type { CompleteOptions } from "./options.ts";

export type HeartbeatMonitor = {
  /** Records that the child is responsive. */
  reset(): void;
  stop(): void;
};

/**
 * Calls `tick` at each heartbeat interval with the time since the last heartbeat.
 *
 * Time is counted in ticks of the parent's own event loop instead of read from a clock: after the parent was busy or
 * suspended, heartbeats are still waiting to be read, and the child must not be taken for unresponsive.
 */
export function startHeartbeatMonitor(tick: (heartbeatAgeMs: number) => void): HeartbeatMonitor {
  let missedTicks = 0;
  const timer = setInterval(() => {
    missedTicks += 1;
    tick(missedTicks * heartbeatIntervalMs);
  }, heartbeatIntervalMs);

  return {
    reset() {
      missedTicks = 0;
    },
    stop: () => clearInterval(timer),
  };
}

/** `prepared`: not started yet. */
export type Phase = "prepared" | "starting" | "idle" | "loading" | "deploying" | "stopping";

/** The observed state of a runtime instance at one tick of its heartbeat monitor. */
export type Liveness = {
  readonly phase: Phase;
  /** Time in this phase. */
  readonly phaseMs: number;
  readonly heartbeatAgeMs: number;
  /** True if the child has confirmed that it received the current deployment. */
  readonly isDeployStarted: boolean;
  /** Time limit of the current deployment. */
  readonly deploymentBudgetMs: number;
  /** Time limit of a stop. */
  readonly stopMs: number;
  readonly hasNewerDeployment: boolean;
};

/** Why an instance is killed: what completes the sentence "it was killed: …", and its kind. */
export type Kill = { readonly cause: string; readonly reason: "blocked" | "killed" };

const blocked: Kill = { cause: "a flow blocked it", reason: "blocked" };

/** Returns why the instance must be killed, or undefined if it is healthy. */
export function killReason(
  { phase, phaseMs, heartbeatAgeMs, isDeployStarted, deploymentBudgetMs, stopMs, hasNewerDeployment }: Liveness,
  limits: Pick<CompleteOptions, "unresponsiveMs" | "readyDeadlineMs">,
): Kill | undefined {
  const hasHung = isHang(heartbeatAgeMs, limits);
  const isUnresponsive = heartbeatAgeMs >= limits.unresponsiveMs;
  switch (phase) {
    case "prepared":
      return undefined;
    case "starting":
      return phaseMs >= limits.readyDeadlineMs ? late("it was not ready in time") : undefined;
    case "idle":
      return isUnresponsive ? blocked : undefined;
    case "loading":
      // As at the start, modules may block the event loop while they are loaded.
      return phaseMs >= limits.readyDeadlineMs ? late("it did not load added modules in time") : undefined;
    case "deploying":
      // Otherwise the deployment would start in a process whose earlier flows are not trusted.
      if (hasHung && !isDeployStarted) {
        return blocked;
      }
      // Large flows block the event loop while they start, which is permitted unless a newer deployment has to wait for it.
      if (isUnresponsive && hasNewerDeployment) {
        return { cause: "the flows blocked it while they started", reason: "blocked" };
      }
      return phaseMs >= deploymentBudgetMs ? late("the flows did not start in time") : undefined;
    case "stopping":
      return isUnresponsive || phaseMs >= stopMs ? late("it did not stop in time") : undefined;
  }
}

function late(cause: string): Kill {
  return { cause, reason: "killed" };
}

/** True if the event loop was blocked for so long that its flows are not trusted any more. */
export function isHang(heartbeatAgeMs: number, { unresponsiveMs }: Pick<CompleteOptions, "unresponsiveMs">): boolean {
  return heartbeatAgeMs >= unresponsiveMs / 2;
}
