import { readdir, readFile } from "node:fs/promises";
import { setTimeout as delay } from "node:timers/promises";

export type Sample = { readonly ms: number; readonly rssMiB: number; readonly descriptors: number };

/** Resident memory and open descriptors of a process. */
export async function readResources(pid: number): Promise<Omit<Sample, "ms">> {
  const status = await readFile(`/proc/${pid}/status`, "utf8");
  const rssKiB = Number(/^VmRSS:\s+(\d+) kB/m.exec(status)?.[1]);
  return { rssMiB: rssKiB / 1024, descriptors: (await readdir(`/proc/${pid}/fd`)).length };
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
