import type { DeploymentResult, RevisionResult, Runtime } from "../runtime/runtime.ts";
import { outcomeMessage } from "./outcome-message.ts";
import type { FlowStore, Revision } from "../store/store.ts";

/** `healthy`: the flows have run without failure for the time; `replaced`: a newer revision became active before. */
export type HealthVerdict =
  | { readonly kind: "healthy" | "replaced" | "stopped" }
  | { readonly kind: "failed"; readonly result: DeploymentResult };

type HealthWatch = Disposable & { readonly verdict: Promise<HealthVerdict> };

/** Watches an active revision until its flows have run for `forMs`, or have failed. Disposing ends it with `stopped`. */
export function watchHealth(
  { seq }: Revision,
  forMs: number,
  {
    runtime,
    store,
  }: { readonly runtime: Pick<Runtime, "lastResult" | "onResult" | "onChange" | "status">; readonly store: FlowStore },
): HealthWatch {
  const { promise: verdict, resolve } = Promise.withResolvers<HealthVerdict>();
  let timer: NodeJS.Timeout | undefined;
  let isRunning = false;
  const subscriptions = new DisposableStack();
  const finish = (value: HealthVerdict): void => {
    clearTimeout(timer);
    subscriptions.dispose();
    resolve(value);
  };

  const handleResult = ({ revision, result }: RevisionResult): void => {
    if (revision.seq !== seq) {
      return;
    }
    if (result.outcome !== "running") {
      finish({ kind: "failed", result });
    } else if (result.failedNodes !== undefined && result.failedNodes.length > 0) {
      finish({ kind: "failed", result: { ...result, outcome: "failed", message: outcomeMessage(result) } });
    } else if (!isRunning) {
      isRunning = true;
      timer = setTimeout(() => finish({ kind: "healthy" }), forMs);
    }
  };

  subscriptions.use(runtime.onResult(handleResult));
  subscriptions.use(
    runtime.onChange(() => {
      const { state, message } = runtime.status();
      if (state === "stopped") {
        finish({ kind: "stopped" });
      } else if (isRunning && state !== "running") {
        finish({ kind: "failed", result: { outcome: "crashed", missingTypes: [], message } });
      }
    }),
  );
  subscriptions.use(store.onRevision(() => finish({ kind: "replaced" })));
  const last = runtime.lastResult();
  if (store.active().seq !== seq) {
    finish({ kind: "replaced" });
  } else if (last !== undefined && runtime.status().state === "running") {
    handleResult(last);
  }
  return { verdict, [Symbol.dispose]: () => finish({ kind: "stopped" }) };
}
