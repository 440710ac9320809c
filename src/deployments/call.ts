import type { Origin } from "../store/origin.ts";
import type { Conditions } from "./conditions.ts";

/** The circumstances of a deployment. */
export type DeploymentCall = {
  readonly origin: Origin;
  /** Callers with different sources take turns. */
  readonly source: string;
  readonly conditions: Conditions;
  readonly message: string | undefined;
  readonly idempotencyKey: string | undefined;
  /** How long the flows must run without failure before the call is answered; undefined: until they are started. */
  readonly waitMs: number | undefined;
  /** Whether the parent is deployed again if the flows fail within `waitMs`. */
  readonly undoOnFailure: boolean;
  /** Whether to merge with the revisions after the expected one. */
  readonly merge: boolean;
  readonly signal: AbortSignal;
  /** Until when the caller waits for the runtime, on the clock of performance.now(); undefined: until the runtime's own deadline. */
  readonly untilMs: number | undefined;
};
