import type { Duplex } from "node:stream";
import type { Context } from "@opentelemetry/api";
import type { DeploymentType } from "@flowgate/flows";
import type { Revision } from "./revision.ts";
import type { CallOptions, Procedure } from "./calls.ts";
import type { Fault } from "./fault.ts";
import type { Boundary } from "./options.ts";

/**
 * `failed`: the last result of the flows is `failed`. `running`: also if it is `degraded`. `restarting`: its process exited and will be restarted.
 * `safe`: it exited too often and does not start the flows until the next deployment. `stopped`: the flows are to be
 * stopped, and have ended; or the service is closing. `standby`: another replica runs the flows. `disabled`: this replica never runs
 * flows.
 */
export type RuntimeState = (typeof runtimeStates)[number];

export const runtimeStates = [
  "starting",
  "running",
  "failed",
  "restarting",
  "safe",
  "stopped",
  "standby",
  "disabled",
] as const;

/**
 * Why the runtime process has ended unexpectedly. `blocked`: a flow blocked its event loop, and it was killed; `killed`: by the
 * service for another reason, or by someone else. `safe_mode`: it has ended too often, and the flows are held back.
 */
export type RuntimeStateReason = "blocked" | "out_of_memory" | "crashed" | "killed" | "safe_mode";

export type RuntimeStatus = {
  /** The name of the embedded flow runtime. */
  readonly name: string;
  readonly version: string;
  readonly state: RuntimeState;
  /** The port of HTTP-in nodes; 0 until it is open. */
  readonly httpPort: number;
  /** Why the newest revision is not running; undefined if it is. */
  readonly message: string | undefined;
  /** The cause of this state; undefined after deployments and calls, or if it is unknown. */
  readonly reason?: RuntimeStateReason | undefined;
  /** The node because of which the process has ended, as far as it is known. The message names it. */
  readonly fault?: Fault | undefined;
  /** The boundary that isolates the flows; undefined if none run here. */
  readonly boundary?: Boundary | undefined;
};

export type RuntimeProcessStats = {
  /** How often the process exited unexpectedly. */
  readonly restarts: number;
  /** Time since the last heartbeat, of the previous process if there is none at the moment; 0 if no process is to run. */
  readonly heartbeatAgeMs: number;
};

/**
 * The result of a deployment. `degraded`: the flows run, but nodes did not start, or logged errors while they were started or too many
 * later; `failed`: the runtime can't start the flows, or its process exited, or hung and was killed; `pending`: not known yet; `stopped`: the flows are to be stopped.
 */
export type DeploymentResult = {
  readonly outcome: "running" | "degraded" | "failed" | "pending" | "stopped";
  /** The node types that are not installed, if the flows failed because of them. */
  readonly missingTypes: readonly string[];
  /** True if the flows failed because modules that the code of nodes requires are not installed. */
  readonly lacksModules?: boolean | undefined;
  /** True if the flows started without errors, and are degraded because of later ones. */
  readonly isLate?: boolean | undefined;
  /** Why the flows failed or the process exited, or which nodes logged errors. */
  readonly message?: string | undefined;
};

/** The result of the flows that run with changed modules. */
export type ModulesResult = DeploymentResult & {
  /** True if the flows were started again, in a new process, for these modules. */
  readonly isRestarted: boolean;
};

export const running: DeploymentResult = { outcome: "running", missingTypes: [] };
export const pending: DeploymentResult = { outcome: "pending", missingTypes: [] };
export const stopped: DeploymentResult = { outcome: "stopped", missingTypes: [] };

/** True if the flows run, with or without errors of nodes. */
export function isRunning({ outcome }: { readonly outcome: string }): boolean {
  return outcome === "running" || outcome === "degraded";
}

/** True if the flows failed because node types or modules are not installed. */
export function isIncomplete({ missingTypes, lacksModules = false }: DeploymentResult): boolean {
  return missingTypes.length > 0 || lacksModules;
}

/** The result of a revision. A revision can have several, since its flows are started again when the process exits. */
export type RevisionResult = { readonly revision: Revision; readonly result: DeploymentResult };

/** How long the caller waits for a deployment. */
export type WaitOptions = {
  /** The caller's deadline in milliseconds. The runtime's own deadline applies too. */
  readonly withinMs?: number | undefined;
  /** Abort signal of the caller. */
  readonly signal?: AbortSignal | undefined;
};

/**
 * Runs flows in a separate process, which it supervises.
 *
 * It keeps the newest revision running that was passed to `apply`, and restarts the process if it exits or hangs. While the flows are to
 * be stopped, there is no process.
 */
export interface Runtime extends AsyncDisposable {
  /**
   * Resolves when the runtime runs this revision or a newer one, can't start it, or has exited because of it; at the
   * latest at the deadline, or when the caller stops waiting. Never rejects: a failure is a result, and the revision
   * remains the newest one. Calls may overlap and may be in any order. `type` defaults to `full`. `trace` is the parent of its spans. While the flows are to be
   * stopped, the result is `stopped`, at once.
   */
  apply(revision: Revision, type?: DeploymentType, trace?: Context, wait?: WaitOptions): Promise<DeploymentResult>;
  /**
   * As `apply` of a `full` deployment, but always in a new process, also if it runs this revision already. `clearFiles` removes all
   * that is in the runtime's folder between the processes; a failure of that is logged.
   */
  restart(
    revision: Revision,
    trace?: Context,
    options?: WaitOptions & { readonly clearFiles?: boolean },
  ): Promise<DeploymentResult>;
  /**
   * Must be called when modules were added to the folder, enabled or disabled: the process loads those that it lacks, gives up the disabled
   * ones, and starts the nodes that could not be started before. Those that run go on. If modules were also replaced or removed since the
   * process was started, the flows use what was disabled, or the process can't load them, this is `restart`.
   */
  applyModules(revision: Revision, trace?: Context, wait?: WaitOptions): Promise<ModulesResult>;
  /**
   * Calls a procedure of the runtime process. Rejects with `flows_stopped`, `flows_not_running`, `no_runtime`,
   * `flows_unresponsive`, `call_failed` or `limit_exceeded`.
   */
  call<Argument, Result>(
    procedure: Procedure<Argument, Result>,
    argument: Argument,
    options?: CallOptions,
  ): Promise<Result>;
  /**
   * Opens a connection to the app with the routes that nodes have registered, on which HTTP/1.1 is spoken. What it answers, flows can
   * forge. Throws as `call` rejects, and `call_failed` without the option `hasAdmin`.
   */
  connectAdmin(): Duplex;
  /**
   * Records that nodes of a revision log too many errors: its result is `degraded` until flows are started again. Does nothing unless it
   * is the one that runs without errors.
   */
  degrade(seq: number, message: string): void;
  /**
   * Must be called when modules were installed for the next deployment: it finds them loaded, or starts in a new process that loads them, as
   * for `applyModules`.
   */
  reloadModules(): void;
  status(): RuntimeStatus;
  processStats(): RuntimeProcessStats;
  /** Undefined while there is no process. */
  processId(): number | undefined;
  /** The node types that are installed; undefined if they are not known yet, or are too many to be reported. */
  nodeTypes(): ReadonlySet<string> | undefined;
  /** The last result that `onResult` reported. */
  lastResult(): RevisionResult | undefined;
  /**
   * The revision that was started last, if node types or modules are missing for it here. In standby, it is kept until a reload or
   * restart is requested.
   */
  incompleteSeq(): number | undefined;
  /** Calls the listener after each change of the status. Disposing ends the subscription. */
  onChange(listener: () => void): Disposable;
  /**
   * Calls the listener when the flows of a revision were started or have failed, also when the process that ran them
   * has exited. Disposing ends the subscription.
   */
  onResult(listener: (result: RevisionResult) => void): Disposable;
  /** Resolves all pending calls of `apply`, and later ones immediately. For a service that is about to stop. */
  release(): void;
  /** Kills the process immediately, for example if it takes too long to stop. */
  kill(): void;
}

const maxChars = 500;

/**
 * Why flows don't run; undefined if they do. For the history, which is kept: the errors that flows throw are left out, because they
 * may contain secrets. The log has them.
 */
export function outcomeMessage({ message }: Pick<DeploymentResult, "message">): string | undefined {
  return message
    ?.replace(/(it crashed): .*$/s, "$1; the log has the error")
    .replaceAll(/\p{Cc}+/gu, " ")
    .slice(0, maxChars)
    .toWellFormed();
}
