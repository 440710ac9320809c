import { deepStrictEqual } from "node:assert/strict";
import type { Effort, Figure, Result, Row } from "./benchmark.ts";
import { openLoader, type Loader } from "./load/loader.ts";
import type { Answer, Target } from "./load/target.ts";
import type { Server } from "./server.ts";
import { formatSpread, median, quartiles } from "./statistics.ts";

export type Contender = { readonly name: string; readonly server: Server; readonly target: Target };

/** Servers that run until it is disposed. The first contender is what the others' columns of the table compare with. */
export type OpenContenders = AsyncDisposable & {
  readonly contenders: readonly Contender[];
  /** Which peers could not run, and why. */
  readonly notes?: readonly string[];
};

/** A figure: the rate of one contender by that of another one. */
export type RateRatio = {
  readonly title: string;
  readonly of: string;
  readonly by: string;
  /** At least this; undefined: for information. */
  readonly goal?: number;
};

export type ComparisonOptions = {
  readonly open: () => Promise<OpenContenders>;
  readonly ratios: readonly RateRatio[];
  /** What all answers must have in common with the first contender's; undefined for one that answers something else. */
  readonly essence: (answer: Answer, contender: string) => unknown;
};

type Slice = {
  readonly perSecond: number;
  readonly cpuUsPerCall: number;
  readonly cpuShare: number;
  readonly loaderShare: number;
};

/**
 * Loads the contenders in turn, in short slices: other work of the machine changes slowly, and falls on all of them. A
 * ratio is taken of the slices of one round, which follow each other.
 */
export async function compare({ open, ratios, essence }: ComparisonOptions, effort: Effort): Promise<Result> {
  const slices = new Map<string, Slice[]>();
  let notes: readonly string[] = [];
  for (let start = 0; start < effort.starts; start++) {
    await using opened = await open();
    await using loader = openLoader();
    notes = opened.notes ?? [];
    await warmUp(loader, opened.contenders, essence, effort);
    for (let round = 0; round < effort.rounds; round++) {
      for (const contender of opened.contenders) {
        const list = slices.get(contender.name) ?? [];
        slices.set(contender.name, [...list, await measure(loader, contender, effort.sliceMs)]);
      }
    }
  }
  return {
    figures: ratios.map(({ title, of, by, goal }): Figure => {
      const values = ratiosOf(slices.get(of), slices.get(by), ({ perSecond }) => perSecond);
      const byCpu = ratiosOf(slices.get(by), slices.get(of), ({ cpuUsPerCall }) => cpuUsPerCall);
      return {
        title,
        unit: "x",
        values,
        byCpu,
        goal: goal === undefined ? undefined : { kind: "atLeast", value: goal },
      };
    }),
    rows: tableOf(slices),
    chart: [
      { title: "calls per second (more is better)", bars: barsOf(slices, ({ perSecond }) => perSecond) },
      { title: "server CPU per call, µs (less is better)", bars: barsOf(slices, ({ cpuUsPerCall }) => cpuUsPerCall) },
    ],
    notes,
  };
}

async function warmUp(
  loader: Loader,
  contenders: readonly Contender[],
  essence: ComparisonOptions["essence"],
  { warmUpCalls, warmUpMs }: Effort,
): Promise<void> {
  let expected: unknown;
  for (const { name, server, target } of contenders) {
    const given = essence(await loader.open(server.url, target), name);
    expected ??= given;
    if (given !== undefined) {
      deepStrictEqual(given, expected, `${name} answers something else`);
    }
    // By calls: on a busy machine it takes longer until the code is compiled.
    const begun = performance.now();
    for (let calls = 0; calls < warmUpCalls && performance.now() - begun < warmUpMs;) {
      calls += (await loader.run(200)).calls;
    }
    await loader.close();
  }
}

async function measure(loader: Loader, { server, target }: Contender, sliceMs: number): Promise<Slice> {
  await loader.open(server.url, target);
  const before = await server.usage();
  const { calls, ms, cpuMs: loaderMs } = await loader.run(sliceMs);
  const after = await server.usage();
  await loader.close();
  const cpuMs = after.cpuMs - before.cpuMs;
  return {
    perSecond: (calls / ms) * 1000,
    cpuUsPerCall: (cpuMs / calls) * 1000,
    cpuShare: cpuMs / ms,
    loaderShare: loaderMs / ms,
  };
}

function tableOf(slices: ReadonlyMap<string, readonly Slice[]>): Row[] {
  const [first = []] = slices.values();
  return [...slices].map(([name, own], at): Row => {
    const rates = own.map(({ perSecond }) => perSecond);
    const rateRatios = ratiosOf(first, own, ({ perSecond }) => perSecond);
    const cpuRatios = ratiosOf(own, first, ({ cpuUsPerCall }) => cpuUsPerCall);
    return {
      "": name,
      "calls/s": median(rates).toFixed(0),
      quartiles: quartiles(rates)
        .map((rate) => rate.toFixed(0))
        .join(" to "),
      "CPU/call": `${median(own.map(({ cpuUsPerCall }) => cpuUsPerCall)).toFixed(1)} µs`,
      "server, load: CPU used": `${percent(own.map(({ cpuShare }) => cpuShare))}, ${percent(own.map(({ loaderShare }) => loaderShare))}`,
      "rate: first/this": at === 0 ? "" : formatSpread(rateRatios),
      "CPU: this/first": at === 0 ? "" : formatSpread(cpuRatios),
    };
  });
}

function percent(shares: readonly number[]): string {
  return `${(100 * median(shares)).toFixed(0)} %`;
}

/** Of each round; none where one of the two did not run. */
function ratiosOf(
  ones: readonly Slice[] = [],
  others: readonly Slice[] = [],
  quantity: (slice: Slice) => number,
): number[] {
  return ones.length === 0 || others.length === 0
    ? []
    : ones.map((one, at) => quantity(one) / quantity(others[at] ?? one));
}

function barsOf(slices: ReadonlyMap<string, readonly Slice[]>, quantity: (slice: Slice) => number) {
  return [...slices].map(([label, own]) => ({ label, values: own.map(quantity) }));
}
