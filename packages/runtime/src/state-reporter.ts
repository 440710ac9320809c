import { type Context, ROOT_CONTEXT } from "@opentelemetry/api";
import { createListeners } from "@flowgate/base/listeners";
import { formatTraceparent } from "@flowgate/base/spans";
import { type Fault, describeFault } from "./fault.ts";
import { readNodeRedVersion } from "./node-red-version.ts";
import type { CompleteOptions } from "./options.ts";
import type { RuntimeState, RuntimeStateReason, RuntimeStatus } from "./runtime.ts";

const uneventful: ReadonlySet<RuntimeState> = new Set(["starting", "running", "stopped", "standby", "disabled"]);

type StateChange = {
  readonly trace?: Context | undefined;
  readonly reason?: RuntimeStateReason | undefined;
  readonly fault?: Fault | undefined;
};

/** Keeps the state of the runtime, logs its changes and notifies listeners. */
export class StateReporter {
  readonly #log: CompleteOptions["log"];
  readonly #flowRuntime = { name: "node-red", version: readNodeRedVersion() };
  readonly #listeners = createListeners<void>();
  #state: RuntimeState = "starting";
  /** Why the newest revision is not running. */
  #message: string | undefined;
  #reason: RuntimeStateReason | undefined;
  #fault: Fault | undefined;

  constructor(log: CompleteOptions["log"]) {
    this.#log = log;
  }

  get state(): RuntimeState {
    return this.#state;
  }

  status({ httpPort, boundary }: Pick<RuntimeStatus, "httpPort" | "boundary">): RuntimeStatus {
    return {
      ...this.#flowRuntime,
      state: this.#state,
      httpPort,
      message: this.#message,
      reason: this.#reason,
      fault: this.#fault,
      boundary,
    };
  }

  /** The message is completed by the node that is at fault. */
  set(state: RuntimeState, cause?: string, { trace = ROOT_CONTEXT, reason, fault }: StateChange = {}): void {
    const message = cause === undefined || fault === undefined ? cause : `${cause} (${describeFault(fault)})`;
    const isChanged = state !== this.#state || message !== this.#message;
    this.#state = state;
    this.#message = message;
    this.#reason = reason;
    this.#fault = fault;
    const level = uneventful.has(state) && !(state === "running" && cause !== undefined) ? "info" : "warn";
    const traceparent = formatTraceparent(trace);
    // Of the child process, where flows may have written it.
    const shown =
      (state === "failed" || state === "running") && message !== undefined ? JSON.stringify(message) : message;
    this.#log(
      {
        level: isChanged ? level : "debug",
        message: `the flow runtime is ${state}${shown === undefined ? "" : `: ${shown}`}`,
        ...(traceparent !== undefined && { traceparent }),
      },
      "runtime",
    );
    this.#listeners.notify();
  }

  /** Disposing ends the subscription. */
  onChange(listener: () => void): Disposable {
    return this.#listeners.add(listener);
  }
}
