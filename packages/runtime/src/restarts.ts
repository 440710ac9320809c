import type { DeploymentType } from "@flowgate/flows";
import { restartsAllNodes } from "./deployment-queue.ts";
import { hasModules } from "./modules/folder.ts";
import type { CompleteOptions } from "./options.ts";

/** Decides when a process starts after another one has exited unexpectedly, and whether it starts without flows. */
export class Backoff {
  readonly #limits: Pick<CompleteOptions, "restart" | "safeMode">;
  readonly #now: () => number;
  /** Unexpected exits within `safeMode.withinMs`, the newest last. */
  #exits: { readonly atMs: number; readonly hadFlows: boolean }[] = [];
  #crashLoop: string | undefined;

  constructor(limits: Pick<CompleteOptions, "restart" | "safeMode">, now: () => number = () => performance.now()) {
    this.#limits = limits;
    this.#now = now;
  }

  /** Why the next process must start without flows; undefined if it need not. */
  get crashLoop(): string | undefined {
    return this.#crashLoop;
  }

  /**
   * Records an unexpected exit, and returns when to start the next process, and the cause to report. Only exits of processes with flows count
   * towards a crash loop, however long they ran: any other exit has a cause outside of the flows, which may be temporary.
   */
  recordExit({ hadFlows, cause: exitCause }: { readonly hadFlows: boolean; readonly cause: string }): {
    readonly delayMs: number;
    readonly cause: string;
  } {
    const {
      restart: { backoffMs, maxBackoffMs },
      safeMode: { exits, withinMs },
    } = this.#limits;
    const atMs = this.#now();
    const recent = this.#exits.filter((exit) => atMs - exit.atMs < withinMs);
    this.#exits = [...recent, { atMs, hadFlows }].slice(-maxExits);
    const isCrashLoop = this.#exits.filter((exit) => exit.hadFlows).length >= exits;
    const times = `it ended ${exits} times within ${formatDuration(withinMs)}`;
    const cause = isCrashLoop && hadFlows ? `${times}, most recently because ${exitCause}` : exitCause;
    if (!isCrashLoop) {
      this.#crashLoop = undefined;
    } else if (hadFlows) {
      this.#crashLoop = cause;
    }
    return { delayMs: Math.min(backoffMs * 2 ** (this.#exits.length - 1), maxBackoffMs), cause };
  }

  /** Lets the next process start with flows. */
  endCrashLoop(): void {
    this.#crashLoop = undefined;
  }

  /** Forgets all recorded exits, because there is a new deployment to try. */
  reset(): void {
    this.#exits = [];
  }
}

/** As many as `safeMode.exits` can be. */
const maxExits = 1_000;

function formatDuration(ms: number): string {
  return ms % 60_000 === 0 ? `${ms / 60_000} min` : `${ms / 1_000} s`;
}

/** Decides whether a process loads added modules. One that ends the process while it is loaded would keep the flows from running. */
export class ModuleExclusion {
  readonly #options: Pick<CompleteOptions, "modulesDir" | "safeMode" | "log">;
  /** The number of processes in a row that ended without flows. */
  #failures = 0;
  #reason: string | undefined;

  constructor(options: Pick<CompleteOptions, "modulesDir" | "safeMode" | "log">) {
    this.#options = options;
  }

  /** Why the next processes start without added modules; undefined if they load them. */
  get reason(): string | undefined {
    return this.#reason;
  }

  /** Must be called after each unexpected exit. `isLoadFailure`: added modules may be the cause. */
  recordExit({ isLoadFailure, cause }: { readonly isLoadFailure: boolean; readonly cause: string }): void {
    this.#failures = isLoadFailure ? this.#failures + 1 : 0;
    const { modulesDir, safeMode, log } = this.#options;
    if (this.#failures < safeMode.exits || this.#reason !== undefined) {
      return;
    }
    if (modulesDir === undefined || !hasModules(modulesDir)) {
      return;
    }
    this.#reason = `without added modules, since it ended ${safeMode.exits} times in a row before it had flows, most recently because ${cause}`;
    const advice = 'remove the faulty one with "flowgate module remove", then run "flowgate runtime restart"';
    log({ level: "error", message: `the runtime starts ${this.#reason}: ${advice}` }, "runtime");
  }

  /** Loads the modules again, because a restart was requested. */
  reset(): void {
    this.#failures = 0;
    this.#reason = undefined;
  }
}

/** The requests to load modules that were added, enabled or disabled. What changes while others are being loaded is loaded after them. */
export class ModuleLoads {
  #current: PromiseWithResolvers<boolean> | undefined;
  #next: PromiseWithResolvers<boolean> | undefined;

  get isRequested(): boolean {
    return this.#next !== undefined;
  }

  /** Resolves with whether the process has loaded them; otherwise it has to be replaced by one that does. */
  request(): Promise<boolean> {
    this.#next ??= Promise.withResolvers();
    return this.#next.promise;
  }

  begin(): void {
    this.#current = this.#next;
    this.#next = undefined;
  }

  succeed(): void {
    this.#current?.resolve(true);
    this.#current = undefined;
  }

  /** Ends those that have not begun. */
  refuse(): void {
    this.#next?.resolve(false);
    this.#next = undefined;
  }

  fail(): void {
    this.#current?.resolve(false);
    this.#current = undefined;
    this.refuse();
  }
}

/** Why a deployment starts in a new process. */
type Renewal = {
  readonly reason: string;
  /** How long the previous process may take to stop. */
  readonly stopMs: number;
};

/** Flows that are not trusted could delay their own end. */
const distrustedStopMs = 500;

/** Decides which deployments start in a new process. */
export class Renewals {
  readonly #options: Pick<CompleteOptions, "freshProcess" | "nodeCloseTimeoutMs" | "log">;
  #distrusted: Renewal | undefined;
  /** Why, if it was requested. */
  #requested: string | undefined;

  constructor(options: Pick<CompleteOptions, "freshProcess" | "nodeCloseTimeoutMs" | "log">) {
    this.#options = options;
  }

  /** Makes the next deployment start in a new process, because code of the current flows may disturb it. */
  distrust(reason: string): void {
    if (this.#distrusted === undefined) {
      this.#distrusted = { reason, stopMs: distrustedStopMs };
      const message = `the next deployment starts in a new process: ${reason}`;
      this.#options.log({ level: "warn", message }, "runtime");
    }
  }

  /** Makes the next deployment start in a new process, on demand. */
  request(reason = "a restart was requested"): void {
    this.#requested ??= reason;
  }

  /** Undefined: a deployment of this type runs in the current process. `hasRunNodes`: nodes have run in it before. */
  find(type: DeploymentType, hasRunNodes: boolean): Renewal | undefined {
    const { freshProcess, nodeCloseTimeoutMs } = this.#options;
    if (this.#distrusted !== undefined) {
      return this.#distrusted;
    }
    const stopMs = stopLimitMs(nodeCloseTimeoutMs);
    if (this.#requested !== undefined) {
      return { reason: this.#requested, stopMs };
    }
    const isConfigured = freshProcess === "always" || (freshProcess === "full" && restartsAllNodes({ type }));
    return isConfigured && hasRunNodes ? { reason: `runtime.freshProcess is ${freshProcess}`, stopMs } : undefined;
  }

  /** Must be called when a deployment has started in a new process, but not when the same flows are restarted after a failure. */
  clear(): void {
    this.#distrusted = undefined;
    this.#requested = undefined;
  }
}

/** How long a process may take to stop. */
export function stopLimitMs(nodeCloseTimeoutMs: number): number {
  return nodeCloseTimeoutMs + 1_000;
}
