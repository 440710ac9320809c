import { setImmediate } from "node:timers/promises";

/** How long a lookup goes on before other work gets as much time. */
const sliceMs = 2;

/**
 * Returns a function that lets other work go on when a slice is over: for many turns of the event loop, since each accepts one
 * connection only, and operators wait behind thousands of connections of flows.
 */
export function createSlices(): () => Promise<void> | undefined {
  let endMs = performance.now() + sliceMs;
  const giveWay = async (): Promise<void> => {
    const resumeMs = performance.now() + sliceMs;
    while (performance.now() < resumeMs) {
      await setImmediate();
    }
    endMs = performance.now() + sliceMs;
  };
  return () => (performance.now() < endMs ? undefined : giveWay());
}
