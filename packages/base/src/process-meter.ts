import { monitorEventLoopDelay } from "node:perf_hooks";
import { getHeapStatistics } from "node:v8";

export type ProcessMeasurement = {
  readonly heapBytes: number;
  /** At which V8 ends the process. */
  readonly heapLimitBytes: number;
  readonly rssBytes: number;
  /** The longest delay of the event loop in the last 10 to 20 seconds. */
  readonly lagSeconds: number;
  /** Since the last measurement, as `seconds`. */
  readonly cpuSeconds: number;
  readonly seconds: number;
};

/** The time after which a new window of the event loop delay begins. */
const windowMs = 10_000;

const resolutionMs = 20;

/** Measures the process that it is in. Its timer does not keep the process alive. */
export class ProcessMeter {
  readonly #delays = monitorEventLoopDelay({ resolution: resolutionMs });
  #cpu = process.cpuUsage();
  #takenMs = performance.now();
  #windowStartMs = this.#takenMs;
  #lastMaxSeconds = 0;

  constructor() {
    this.#delays.enable();
  }

  take(): ProcessMeasurement {
    const { user, system } = process.cpuUsage(this.#cpu);
    this.#cpu = process.cpuUsage();
    const nowMs = performance.now();
    const seconds = (nowMs - this.#takenMs) / 1_000;
    this.#takenMs = nowMs;
    const { heapUsed, rss } = process.memoryUsage();
    return {
      heapBytes: heapUsed,
      heapLimitBytes: getHeapStatistics().heap_size_limit,
      rssBytes: rss,
      lagSeconds: this.#takeLag(nowMs),
      cpuSeconds: (user + system) / 1e6,
      seconds,
    };
  }

  stop(): void {
    this.#delays.disable();
  }

  #takeLag(nowMs: number): number {
    const maxSeconds = Math.max(0, this.#delays.max / 1e9 - resolutionMs / 1e3);
    const lagSeconds = Math.max(maxSeconds, this.#lastMaxSeconds);
    if (nowMs - this.#windowStartMs >= windowMs) {
      this.#windowStartMs = nowMs;
      this.#lastMaxSeconds = maxSeconds;
      this.#delays.reset();
    }
    return lagSeconds;
  }
}
