import { createListeners } from "../../base/listeners.ts";
import type { Store, StoreHealth } from "../store.ts";

export interface Health extends Pick<Store, "health" | "onHealthChange"> {
  set(next: StoreHealth): void;
}

/** Whether the database is usable, which it is at first. */
export function createHealth(): Health {
  const listeners = createListeners<void>();
  let health: StoreHealth = { isUsable: true };
  return {
    health: () => health,
    onHealthChange: (listener) => listeners.add(listener),
    set(next) {
      if (
        health.isUsable !== next.isUsable ||
        (!next.isUsable && !health.isUsable && next.message !== health.message)
      ) {
        health = next;
        listeners.notify();
      }
    },
  };
}
