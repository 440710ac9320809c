import type { Logger } from "pino";
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

/** Logs when the store fails, and when it can be used again. Disposing ends it. */
export function logHealth(store: Pick<Store, "health" | "onHealthChange">, log: Logger): Disposable {
  return store.onHealthChange(() => {
    const health = store.health();
    if (health.isUsable) {
      log.info("the store can be used again");
    } else {
      log.error(`the store has failed: ${health.message}`);
    }
  });
}
