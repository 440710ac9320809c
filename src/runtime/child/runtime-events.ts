import type flowUtil from "@node-red/util";
import type { RuntimeEvent } from "@node-red/util";

/** Returns a function that resolves with the next runtime event that matches. Each event is passed to `matches` once. */
export function createEventWaiter(util: typeof flowUtil): (matches: (event: RuntimeEvent) => boolean) => Promise<void> {
  const listeners = new Set<(event: RuntimeEvent) => void>();
  util.events.on("runtime-event", (event) => {
    for (const listener of listeners) {
      listener(event);
    }
  });

  return async (matches) => {
    const { promise, resolve } = Promise.withResolvers<void>();
    const listener = (event: RuntimeEvent) => {
      if (!matches(event)) {
        return;
      }
      listeners.delete(listener);
      resolve();
    };
    listeners.add(listener);
    await promise;
  };
}

/** Whether the event reports that the runtime has loaded its flows, or has failed to. */
export function isStartResult({ id, payload }: RuntimeEvent): boolean {
  return id === "runtime-state" && (payload?.state === "start" || payload?.error !== undefined);
}

export function describeFailure({ payload }: RuntimeEvent): string {
  switch (payload?.error) {
    case "missing-types":
      return `missing node types: ${payload.types?.join(", ")}`;
    case "missing-modules":
      return `missing modules: ${payload.modules?.map(({ module }) => module).join(", ")}`;
    default:
      return String(payload?.error);
  }
}
