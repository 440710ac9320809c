import type { DeploymentType } from "../flows/configuration.ts";
import type { Revision } from "../store/store.ts";

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
   * Resolves when the runtime runs this revision or a newer one, or has said why it can't (the status
   * tells), at the latest at the deadline. Rejects never: the deployment stands all the same.
   */
  apply(revision: Revision, type: DeploymentType): Promise<void>;
  status(): RuntimeStatus;
}
