import type { Store } from "../store/store.ts";
import type { StoreMetrics } from "../telemetry/stores.ts";

/** Returns the store with its operations measured. */
export function measureStore(store: Store, metrics: StoreMetrics): Store {
  return {
    ...store,
    flows: metrics.measure("flows", store.flows, [
      "commit",
      "find",
      "findEntry",
      "findRepeated",
      "list",
      "prune",
      "reload",
      "update",
    ]),
    tokens: metrics.measure("tokens", store.tokens, [
      "insert",
      "find",
      "get",
      "list",
      "remove",
      "removeExpired",
      "recordUses",
    ]),
    audit: metrics.measure("audit", store.audit, ["append", "list", "verify", "prune"]),
  };
}
