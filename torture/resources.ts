import { readdir, readFile } from "node:fs/promises";
import { setTimeout as delay } from "node:timers/promises";

type Resources = {
  readonly rssMiB: number;
  /** The highest resident memory since the process was started. */
  readonly peakMiB: number;
  readonly descriptors: number;
};

export type Sample = Resources & { readonly ms: number };

/** Resident memory and open descriptors of a process. */
export async function readResources(pid: number): Promise<Resources> {
  const status = await readFile(`/proc/${pid}/status`, "utf8");
  const mebibytes = (name: string): number =>
    Number(new RegExp(`^${name}:\\s+(\\d+) kB`, "m").exec(status)?.[1]) / 1024;
  const { length: descriptors } = await readdir(`/proc/${pid}/fd`);
  return { rssMiB: mebibytes("VmRSS"), peakMiB: mebibytes("VmHWM"), descriptors };
}

/** Samples a process until the signal. */
export async function sampleResources(pid: number, everyMs: number, until: AbortSignal): Promise<Sample[]> {
  const samples: Sample[] = [];
  while (!until.aborted) {
    samples.push({ ms: performance.now(), ...(await readResources(pid)) });
    await delay(everyMs, undefined, { signal: until }).catch(() => {});
  }
  return samples;
}

/** The slope of the regression line, in units per hour. */
export function slopePerHour(samples: readonly Sample[], of: "rssMiB" | "descriptors"): number {
  const mean = (values: readonly number[]) => values.reduce((sum, value) => sum + value, 0) / values.length;
  const meanMs = mean(samples.map(({ ms }) => ms));
  const meanValue = mean(samples.map((sample) => sample[of]));
  const covariance = mean(samples.map((sample) => (sample.ms - meanMs) * (sample[of] - meanValue)));
  const variance = mean(samples.map(({ ms }) => (ms - meanMs) ** 2));
  return (covariance / variance) * 3_600_000;
}

/** How much the regression line rises between the first and the last sample. */
export function growth(samples: readonly Sample[], of: "rssMiB" | "descriptors"): number {
  const durationMs = (samples.at(-1)?.ms ?? 0) - (samples[0]?.ms ?? 0);
  return (slopePerHour(samples, of) * durationMs) / 3_600_000;
}
