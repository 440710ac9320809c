import { createListeners } from "../listeners.ts";

/** The ports of the service, which flows can't connect to or listen on. */
export type ProtectedPorts = {
  all(): readonly number[];
  /** Adds a port that has become known; 0 and undefined are ignored. */
  add(port: number | undefined): void;
  /** Calls the listener with each further port. Disposing ends the subscription. */
  onAdded(listener: (port: number) => void): Disposable;
};

export function createProtectedPorts(): ProtectedPorts {
  const ports = new Set<number>();
  const listeners = createListeners<number>();
  return {
    all: () => [...ports],
    add(port = 0) {
      if (port === 0 || ports.has(port)) return;
      ports.add(port);
      listeners.notify(port);
    },
    onAdded: (listener) => listeners.add(listener),
  };
}
