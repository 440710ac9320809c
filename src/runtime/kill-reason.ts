import type { CompleteOptions } from "./options.ts";

export type Phase = "starting" | "idle" | "deploying" | "stopping";

/** The observed state of a runtime instance at one tick of its heartbeat monitor. */
export type Liveness = {
  readonly phase: Phase;
  /** Time in this phase. */
  readonly phaseMs: number;
  readonly heartbeatAgeMs: number;
  /** Whether the child has confirmed that it received the current deployment. */
  readonly isDeployStarted: boolean;
  /** Time limit of the current deployment. */
  readonly deploymentBudgetMs: number;
  readonly hasNewerDeployment: boolean;
};

/** Returns why the instance must be killed, or undefined if it is healthy. */
export function killReason(
  { phase, phaseMs, heartbeatAgeMs, isDeployStarted, deploymentBudgetMs, hasNewerDeployment }: Liveness,
  limits: Pick<CompleteOptions, "unresponsiveMs" | "readyDeadlineMs" | "nodeCloseTimeoutMs">,
): string | undefined {
  const isUnresponsive = heartbeatAgeMs >= limits.unresponsiveMs;
  switch (phase) {
    case "starting":
      return phaseMs >= limits.readyDeadlineMs ? "it was not ready in time" : undefined;
    case "idle":
      return isUnresponsive ? "a flow blocked it" : undefined;
    case "deploying":
      if (isUnresponsive && !isDeployStarted) return "a flow blocked it";
      // Large flows block the event loop while they start, which is permitted unless a newer deployment has to wait for it.
      if (isUnresponsive && hasNewerDeployment) return "the flows blocked it while they started";
      return phaseMs >= deploymentBudgetMs ? "the flows did not start in time" : undefined;
    case "stopping":
      return isUnresponsive || phaseMs >= limits.nodeCloseTimeoutMs + 1_000 ? "it did not stop in time" : undefined;
  }
}
