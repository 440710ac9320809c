import { createListeners } from "@flowgate/base/listeners";
import type { DesiredState, DesiredStateStore } from "../../../src/store/desired-state.ts";

/** A desired state in memory. */
export function createDesiredState(isStarted = true): Pick<DesiredStateStore, "current" | "onChange"> & {
  set(isStarted: boolean): void;
} {
  const listeners = createListeners<void>();
  let state: DesiredState = { isStarted, by: undefined, atMs: undefined };
  return {
    current: () => state,
    onChange: (listener) => listeners.add(listener),
    set(next) {
      state = { ...state, isStarted: next };
      listeners.notify();
    },
  };
}
