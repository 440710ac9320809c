import type { ProcessExit } from "./child-process.ts";
import type { Fault } from "./fault.ts";
import type { Kill } from "./liveness.ts";
import type { Crashed, ListenFailed } from "./messages.ts";
import { nameOptions } from "./sandbox.ts";

/**
 * Finds out why an instance has ended: because the service has killed or stopped it, for the reason that the child has reported, which is
 * more specific than its exit code, or else as its process has exited.
 */
export class ExitReport {
  #cause: string | undefined;
  #fault: Fault | undefined;
  #hasListenFailed = false;
  #killed: (Kill & { readonly isExpected: boolean }) | undefined;

  get hasListenFailed(): boolean {
    return this.#hasListenFailed;
  }

  get isKilled(): boolean {
    return this.#killed !== undefined;
  }

  recordKill(kill: Kill, isExpected: boolean): void {
    this.#killed = { ...kill, isExpected };
  }

  recordListenFailure({ address, code }: ListenFailed, port: number): void {
    this.#hasListenFailed = true;
    this.#cause ??= `HTTP-in nodes can't listen on ${address}, port ${port} (runtime.port): ${code}`;
  }

  /** Returns whether it is the first report. */
  recordCrash({ cause, fault }: Crashed): boolean {
    if (this.#cause !== undefined) {
      return false;
    }
    this.#fault = fault;
    this.#cause = `it crashed: ${quoteLine(nameOptions(cause))}`;
    return true;
  }

  /** `isExpected`: whether it was stopped, or killed for a newer deployment. */
  explain(exit: ProcessExit, isStopped: boolean): ProcessExit & { readonly isExpected: boolean } {
    const reason = this.#killed?.reason ?? (this.#hasListenFailed ? undefined : exit.reason);
    const isOfActivity = reason === "blocked" || reason === "out_of_memory";
    return {
      cause: this.#killed?.cause ?? (isStopped ? "it was stopped" : (this.#cause ?? exit.cause)),
      reason,
      // Flows can report a crash of others before they block the event loop themselves.
      fault: isOfActivity ? exit.fault : this.#fault,
      isExpected: this.#killed?.isExpected ?? isStopped,
    };
  }
}

/** Quotes the first line of what flows may have written, for a text of the service. */
function quoteLine(text: string): string {
  return JSON.stringify((text.split("\n", 1)[0] ?? "").slice(0, 300));
}
