import type { Logger } from "pino";
import type { ListenerLimits, ListenerOptions } from "./listener/options.ts";

/** Those that connections or calls are ended at; the others keep a client within them. */
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
  "overheadBytesPerSecond",
  "connectionAgeMs",
] as const satisfies readonly (keyof ListenerLimits)[];

const announceEveryMs = 10_000;

/** Logs how often which limit was reached, every so often: who reaches for one may do so many times. */
export function createLimitLog(log: Logger): ListenerOptions["onLimit"] {
  let reached: Record<string, number> = {};
  let timer: NodeJS.Timeout | undefined;
  return (limit) => {
    reached[limit] = (reached[limit] ?? 0) + 1;
    timer ??= setTimeout(() => {
      log.warn({ limits: reached }, "connections or calls were ended at a limit");
      reached = {};
      timer = undefined;
    }, announceEveryMs).unref();
  };
}
