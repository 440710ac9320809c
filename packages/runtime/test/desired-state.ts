import { createListeners } from "@flowgate/base/listeners";

/** A desired state in memory. */
export function createDesiredState(isStarted = true) {
  const listeners = createListeners<void>();
  let state = { isStarted, by: undefined, atMs: undefined };
  return {
    current: () => state,
    onChange: (listener: () => void): Disposable => listeners.add(listener),
    set(next: boolean): void {
      state = { ...state, isStarted: next };
      listeners.notify();
    },
  };
}
