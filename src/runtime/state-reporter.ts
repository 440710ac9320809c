import { EventEmitter } from "node:events";
import { type Context, ROOT_CONTEXT } from "@opentelemetry/api";
import { formatTraceparent } from "../telemetry/trace.ts";
import type { CompleteOptions } from "./options.ts";
import type { RuntimeState } from "./runtime.ts";

export type StateReporter = {
  readonly state: RuntimeState;
  /** Why the newest revision is not running. */
  readonly message: string | undefined;
  set(state: RuntimeState, message?: string, trace?: Context): void;
  onChange(listener: () => void): void;
};

/** Keeps the state of the runtime, logs its changes and notifies listeners. */
export function createStateReporter(log: CompleteOptions["log"]): StateReporter {
  const emitter = new EventEmitter();
  let state: RuntimeState = "starting";
  let message: string | undefined;

  return {
    get state() {
      return state;
    },
    get message() {
      return message;
    },
    set(nextState, nextMessage, trace = ROOT_CONTEXT) {
      const isChanged = nextState !== state || nextMessage !== message;
      state = nextState;
      message = nextMessage;
      const level = state === "running" || state === "stopped" ? "info" : "warn";
      const traceparent = formatTraceparent(trace);
      log(
        {
          level: isChanged ? level : "debug",
          message: `the flow runtime is ${state}${message === undefined ? "" : `: ${message}`}`,
          ...(traceparent !== undefined && { traceparent }),
        },
        "runtime",
      );
      emitter.emit("change");
    },
    onChange: (listener) => void emitter.on("change", listener),
  };
}
