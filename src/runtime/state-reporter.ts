import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { type Context, ROOT_CONTEXT } from "@opentelemetry/api";
import { createListeners } from "../base/listeners.ts";
import { formatTraceparent } from "../telemetry/trace.ts";
import type { CompleteOptions } from "./options.ts";
import type { RuntimeState, RuntimeStatus } from "./runtime.ts";

export type StateReporter = {
  readonly state: RuntimeState;
  /** Why the newest revision is not running. */
  readonly message: string | undefined;
  set(state: RuntimeState, message?: string, trace?: Context): void;
  /** Disposing ends the subscription. */
  onChange(listener: () => void): Disposable;
};

const uneventful: ReadonlySet<RuntimeState> = new Set(["starting", "running", "stopped", "standby", "disabled"]);

/** Keeps the state of the runtime, logs its changes and notifies listeners. */
export function createStateReporter(log: CompleteOptions["log"]): StateReporter {
  const listeners = createListeners<void>();
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
      const level = uneventful.has(state) ? "info" : "warn";
      const traceparent = formatTraceparent(trace);
      // Of the child process, where flows may have written it.
      const reason = state === "failed" && message !== undefined ? JSON.stringify(message) : message;
      log(
        {
          level: isChanged ? level : "debug",
          message: `the flow runtime is ${state}${reason === undefined ? "" : `: ${reason}`}`,
          ...(traceparent !== undefined && { traceparent }),
        },
        "runtime",
      );
      listeners.notify();
    },
    onChange: (listener) => listeners.add(listener),
  };
}

/** Name and version of the embedded flow runtime. */
export function readFlowRuntime(): Pick<RuntimeStatus, "name" | "version"> {
  const manifest = createRequire(import.meta.url).resolve("@node-red/runtime/package.json");
  const { version } = JSON.parse(readFileSync(manifest, "utf8")) as { version: string };
  return { name: "node-red", version };
}
