import type { DeploymentType } from "../flows/configuration.ts";
import type { Revision } from "../store/store.ts";

/**
 * `failed`: the runtime said why it can't start the flows. `restarting`: it ended, another one is due.
 * `safe`: it ended too often in a row, and holds the flows back until the next deployment.
 */
export type RuntimeState = "starting" | "running" | "failed" | "restarting" | "safe" | "stopped";

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

/**
 * Runs flows, in a process of its own that it supervises.
 *
 * It follows the newest revision it was given, whatever becomes of the process.
 */
export interface Runtime extends AsyncDisposable {
  /**
   * Resolves when the runtime runs this revision or a newer one, has said why it can't, or has ended on
   * it (the status tells); at the latest at the deadline. Rejects never: the deployment stands all the
   * same. Calls may overlap, and come in any order.
   */
  apply(revision: Revision, type: DeploymentType): Promise<void>;
  status(): RuntimeStatus;
  /** The service is about to stop: from now on `apply` waits for nothing, and whoever waits is released. */
  release(): void;
}
