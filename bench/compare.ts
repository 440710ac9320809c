import type { Effort, Outcome, Row } from "./benchmark.ts";
import { load, type Target, type Throughput } from "./load.ts";
import { median, quantile } from "./statistics.ts";

export type Comparison = {
  /** What it is about, by name; the second is what the first is measured by. */
  readonly subject: readonly [name: string, target: Target];
  readonly yardstick: readonly [name: string, target: Target];
};

/** Servers that run until it is disposed. */
export type OpenComparison = Comparison & AsyncDisposable;

/**
 * The throughput of one as a share of the other's, as the median over rounds in which both ran one after
 * the other: what else this machine does changes slowly, and falls on both.
 */
export async function compare(
  open: () => Promise<OpenComparison>,
  connections: number,
  { starts, rounds, secondsARun }: Effort,
): Promise<Outcome> {
  const options = { connections, seconds: secondsARun };
  const names: string[] = [];
  const ours: Throughput[] = [];
  const theirs: Throughput[] = [];
  for (let start = 0; start < starts; start++) {
    await using comparison = await open();
    const { subject, yardstick } = comparison;
    names.splice(0, 2, subject[0], yardstick[0]);
    await load(subject[1], options);
    await load(yardstick[1], options);
    for (let round = 0; round < rounds; round++) {
      ours.push(await load(subject[1], options));
      theirs.push(await load(yardstick[1], options));
    }
  }
  const throughput = ratios(ours, theirs, (one, other) => one.perSecond / other.perSecond);
  const cpu = ratios(ours, theirs, (one, other) => (other.cpuMsPerRequest ?? NaN) / (one.cpuMsPerRequest ?? NaN));
  const [subject = "", yardstick = ""] = names;
  return {
    value: median(throughput),
    rows: [
      rateRow(subject, ours),
      rateRow(yardstick, theirs),
      ratioRow("ratio of requests/s", throughput),
      ratioRow("ratio by CPU time", cpu),
    ],
  };
}

function ratios<T>(ours: readonly T[], theirs: readonly T[], ratio: (one: T, other: T) => number): number[] {
  return ours.map((one, round) => ratio(one, theirs[round] ?? one));
}

function rateRow(name: string, results: readonly Throughput[]): Row {
  const rates = results.map(({ perSecond }) => perSecond);
  return {
    "": name,
    min: Math.min(...rates).toFixed(0),
    median: `${median(rates).toFixed(0)}/s`,
    max: Math.max(...rates).toFixed(0),
    "CPU a request": `${(median(results.map(({ cpuMsPerRequest = NaN }) => cpuMsPerRequest)) * 1000).toFixed(1)} µs`,
    "CPU used": `${(median(results.map(({ cpuShare = NaN }) => cpuShare)) * 100).toFixed(0)} %`,
  };
}

function ratioRow(name: string, values: readonly number[]): Row {
  return {
    "": name,
    min: quantile(values, 0).toFixed(2),
    median: median(values).toFixed(2),
    max: quantile(values, 1).toFixed(2),
  };
}
