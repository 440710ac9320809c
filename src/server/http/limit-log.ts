import type { Logger } from "pino";
import type { ListenerLimits } from "./listener-options.ts";

/** The limits at which connections or calls are ended. The other limits only restrict what is accepted. */
export const connectionEndingLimits = [
  "connections",
  "connectionsPerSource",
  "callsPerConnection",
  "headerBytes",
  "firstByteTimeoutMs",
  "headersTimeoutMs",
  "requestTimeoutMs",
  "idleTimeoutMs",
  "stallTimeoutMs",
  "anonymousStallTimeoutMs",
  "connectionAgeMs",
] as const satisfies readonly (keyof ListenerLimits)[];

const logIntervalMs = 10_000;

/** Logs how often each limit was reached, at most every 10 s, since a misbehaving client may reach one many times. */
export function createLimitLog(log: Logger): (limit: keyof ListenerLimits) => void {
  let reached: Record<string, number> = {};
  let timer: NodeJS.Timeout | undefined;
  return (limit) => {
    reached[limit] = (reached[limit] ?? 0) + 1;
    timer ??= setTimeout(() => {
      log.warn({ limits: reached }, "connections or calls were ended at a limit");
      reached = {};
      timer = undefined;
    }, logIntervalMs).unref();
  };
}
