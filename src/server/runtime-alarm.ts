import type { ServerOptions } from "./options.ts";

const intervalMs = 10_000;

const reason = "flows used up their share of the connections and calls of the API";

/**
 * Returns a function to call whenever a process of the flow runtime exceeds its share. Counts each time, and logs at most every 10 s.
 * What is left of an earlier process is no reason to distrust the current one.
 */
export function createRuntimeAlarm(
  { log, runtimeProcess, onRuntimeAbuse }: Pick<ServerOptions, "log" | "runtimeProcess" | "onRuntimeAbuse">,
  onLimit: (limit: "runtime") => void,
): (processId: number | undefined) => void {
  let nextMs = 0;
  return (processId) => {
    onLimit("runtime");
    if (processId !== undefined && processId === runtimeProcess?.processId()) {
      onRuntimeAbuse?.(reason);
    }
    const nowMs = performance.now();
    if (nowMs >= nextMs) {
      nextMs = nowMs + intervalMs;
      log.warn(`${reason}: further ones are closed`);
    }
  };
}
