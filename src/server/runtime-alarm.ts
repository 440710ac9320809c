import type { Logger } from "pino";

const intervalMs = 10_000;

const reason = "flows used up their share of the connections and calls of the API";

/** Returns a function to call whenever the flow runtime exceeds its share. Counts each time, and reports at most every 10 s. */
export function createRuntimeAlarm(
  {
    log,
    onRuntimeLockOut,
  }: { readonly log: Logger; readonly onRuntimeLockOut?: ((reason: string) => void) | undefined },
  onLimit: (limit: "runtime") => void,
): () => void {
  let nextMs = 0;
  return () => {
    onLimit("runtime");
    onRuntimeLockOut?.(reason);
    const nowMs = performance.now();
    if (nowMs >= nextMs) {
      nextMs = nowMs + intervalMs;
      log.warn(`${reason}: further ones are closed`);
    }
  };
}
