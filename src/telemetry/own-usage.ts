import { statfs } from "node:fs/promises";
import { type ProcessMeasurement, ProcessMeter } from "@flowgate/base/process-meter";

export type DiskSpace = { readonly freeBytes: number; readonly totalBytes: number };

/** Callers within this time get the same measurement: over shorter times, the CPU usage means nothing. */
const leastMs = 1_000;

/** Measuring ends after this time without a reader. */
const idleMs = 60_000;

/** The space of a folder's file system, for users without privileges; undefined if it does not report its size. */
export async function readDiskSpace(dir: string): Promise<DiskSpace | undefined> {
  try {
    const { bsize, bavail, blocks } = await statfs(dir);
    return blocks === 0 ? undefined : { freeBytes: bavail * bsize, totalBytes: blocks * bsize };
  } catch {
    return undefined;
  }
}

/** The resource usage of the service process, measured only while there are readers. */
export class OwnUsage implements Disposable {
  #meter: ProcessMeter | undefined;
  #measurement: ProcessMeasurement | undefined;
  #measuredMs = 0;
  #idle: NodeJS.Timeout | undefined;

  /** The first measurement after a pause covers no time: `seconds` is 0 then. */
  process(): ProcessMeasurement {
    const nowMs = performance.now();
    this.#idle ??= setTimeout(() => this.#end(), idleMs).unref();
    this.#idle.refresh();
    if (this.#measurement === undefined || nowMs - this.#measuredMs >= leastMs) {
      const isFirst = this.#meter === undefined;
      this.#meter ??= new ProcessMeter();
      const measurement = this.#meter.take();
      this.#measurement = isFirst ? { ...measurement, seconds: 0 } : measurement;
      this.#measuredMs = nowMs;
    }
    return this.#measurement;
  }

  [Symbol.dispose](): void {
    this.#end();
  }

  #end(): void {
    clearTimeout(this.#idle);
    this.#meter?.stop();
    this.#idle = this.#meter = this.#measurement = undefined;
  }
}
