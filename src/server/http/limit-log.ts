import type { Logger } from "pino";
import type { ListenerLimits } from "./listener-options.ts";

/** `runtime`: the share of the flow runtime. */
type Limit = keyof ListenerLimits | "runtime";

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
  "overheadBytesPerSecond",
  "connectionAgeMs",
  "runtime",
] as const satisfies readonly Limit[];

const logIntervalMs = 10_000;

/** Logs how often each limit was reached, at most every 10 s, since a misbehaving client may reach one many times. */
export function createLimitLog(log: Logger): (limit: Limit) => void {
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
