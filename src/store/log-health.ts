import type { Logger } from "pino";
import type { Store } from "./store.ts";

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
