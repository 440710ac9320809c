import type { Context } from "@opentelemetry/api";
import type { DeploymentType } from "../flows/configuration.ts";
import type { Revision } from "../store/store.ts";

/**
 * `failed`: the runtime said why it can't start the flows. `restarting`: it ended, another one is due.
 * `safe`: it ended too often in a row, and holds the flows back until the next deployment.
 */
export type RuntimeState = (typeof runtimeStates)[number];

export const runtimeStates = ["starting", "running", "failed", "restarting", "safe", "stopped"] as const;

export type RuntimeStatus = {
  /** Of the runtime that is embedded, and its version. */
  readonly name: string;
  readonly version: string;
  readonly state: RuntimeState;
  /** Where HTTP-in nodes answer; 0 until it is bound. */
  readonly httpPort: number;
  /** Why the newest revision does not run; undefined where it does. */
  readonly message: string | undefined;
};

/** How the process itself does. */
type RuntimeVitals = {
  /** How often it was started again, for whatever reason. */
  readonly restarts: number;
  /** Since it was last heard; while there is none, since the one before was. */
  readonly silentMs: number;
};

/**
 * What became of a deployment. `failed`: the runtime can't start the flows; `crashed`: its process ended, or hung and
 * was killed, while it started them; `pending`: not known yet.
 */
export type DeploymentResult = {
  readonly outcome: "running" | "failed" | "crashed" | "pending";
  /** The node types that are not installed, where the flows failed for lack of them. */
  readonly missingTypes: readonly string[];
};

/** How long someone waits for a deployment. */
export type WaitOptions = {
  /** Besides the runtime's own deadline. */
  readonly withinMs?: number | undefined;
  /** Aborted when there is no one left to wait. */
  readonly signal?: AbortSignal | undefined;
};

/**
 * Runs flows, in a process of its own that it supervises.
 *
 * It follows the newest revision it was given, whatever becomes of the process.
 */
export interface Runtime extends AsyncDisposable {
  /**
   * Resolves when the runtime runs this revision or a newer one, can't start it, or has ended on it; at the latest
   * at the deadline, or when the caller stops waiting. Never rejects: the deployment stands all the same. Calls may
   * overlap, and come in any order. What is done for it stands in the trace below `trace`.
   */
  apply(revision: Revision, type: DeploymentType, trace?: Context, patience?: WaitOptions): Promise<DeploymentResult>;
  status(): RuntimeStatus;
  vitals(): RuntimeVitals;
  /** Calls the listener after each change of the state, for as long as there is a runtime. */
  onChange(listener: () => void): void;
  /** The service is about to stop: from now on `apply` waits for nothing, and whoever waits is released. */
  release(): void;
  /** Ends the process at once; of use where it takes too long to stop. */
  kill(): void;
}
