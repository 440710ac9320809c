import { FlowsService } from "../../gen/flowgate/v1/flows_pb.ts";
import type { Runtime, RuntimeState } from "../runtime/runtime.ts";
import type { ReadinessOptions } from "../server/health.ts";
import type { Store } from "../store/store.ts";

const settledStates: ReadonlySet<RuntimeState> = new Set(["running", "failed", "safe", "standby", "disabled"]);

/**
 * Ready once the runtime has started the stored flows, has failed to, or has none to start in this replica. It stays ready when
 * flows fail later, since the service must be reachable for the deployment that fixes them.
 */
export function createReadiness(runtime: Runtime, store: Store): ReadinessOptions {
  let applied = false;
  const observe = (): void => {
    applied ||= settledStates.has(runtime.status().state);
  };
  observe();
  runtime.onChange(observe);
  return {
    ready() {
      const { state, message } = runtime.status();
      const health = store.health();
      return {
        ready: applied && health.isUsable,
        // Only FlowsService needs the runtime; all services need the store.
        ...(health.isUsable && { notServing: applied ? [] : [FlowsService.typeName] }),
        store: health.isUsable ? "open" : health.message,
        runtime: state,
        ...(message === undefined ? {} : { message }),
      };
    },
    onReadyChange(listener) {
      runtime.onChange(listener);
      store.onHealthChange(listener);
    },
  };
}
