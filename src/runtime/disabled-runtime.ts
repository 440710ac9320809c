import { pending } from "./deployment.ts";
import { readFlowRuntime } from "./flow-runtime.ts";
import type { RuntimeOptions } from "./options.ts";
import type { Runtime } from "./runtime.ts";
import { createStateReporter } from "./state-reporter.ts";

/** Creates a runtime that never runs flows and has no process. */
export function createDisabledRuntime(log: RuntimeOptions["log"]): Runtime {
  const flowRuntime = readFlowRuntime();
  const reporter = createStateReporter(log);
  reporter.set("disabled");

  return {
    apply: async () => pending,
    restart: async () => pending,
    distrust() {},
    status: () => ({ ...flowRuntime, state: reporter.state, httpPort: 0, message: undefined, boundary: undefined }),
    processStats: () => ({ restarts: 0, heartbeatAgeMs: 0 }),
    processId: () => undefined,
    nodeTypes: () => undefined,
    lastResult: () => undefined,
    incompleteSeq: () => undefined,
    onChange: (listener) => reporter.onChange(listener),
    onResult: () => ({ [Symbol.dispose]() {} }),
    release() {},
    kill() {},
    async [Symbol.asyncDispose]() {
      reporter.set("stopped");
    },
  };
}
