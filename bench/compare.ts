import { deepStrictEqual } from "node:assert/strict";
import type { Effort, Figure, Result, Row } from "./benchmark.ts";
import { openLoader, type Loader } from "./load/loader.ts";
import type { CallResponse, Target } from "./load/target.ts";
import type { Server } from "./server.ts";
import { median, quartiles } from "./statistics.ts";

export type Contender = { readonly name: string; readonly server: Server; readonly target: Target };

/** Running servers. The table compares the others with the first contender. Disposing stops them. */
export type OpenContenders = AsyncDisposable & {
  readonly contenders: readonly Contender[];
  /** Why peers could not run. */
  readonly notes?: readonly string[];
};

/** The rate of contender `of` divided by that of contender `by`. */
export type RateRatio = {
  readonly title: string;
  readonly of: string;
  readonly by: string;
  /** The minimum; undefined for a ratio without a goal. */
  readonly goal?: number;
};

export type ComparisonOptions = {
  readonly open: () => Promise<OpenContenders>;
  readonly ratios: readonly RateRatio[];
  /** Returns what must be equal in the responses of all contenders; undefined for a contender with other responses. */
  readonly normalize: (response: CallResponse, contender: string) => unknown;
};

type Slice = {
  readonly perSecond: number;
  readonly cpuUsPerCall: number;
  readonly cpuShare: number;
  readonly loaderShare: number;
};

/**
 * Loads the contenders in turn in short slices, so that other work of the machine affects all of them. Ratios are computed
 * from the slices of one round, which are measured directly after each other.
 */
export async function compare({ open, ratios, normalize }: ComparisonOptions, effort: Effort): Promise<Result> {
  const slices = new Map<string, Slice[]>();
  let notes: readonly string[] = [];
  for (let start = 0; start < effort.starts; start++) {
    await using opened = await open();
    await using loader = openLoader();
    notes = opened.notes ?? [];
    await warmUp(loader, opened.contenders, normalize, effort);
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
  normalize: ComparisonOptions["normalize"],
  { warmUpCalls, warmUpMs }: Effort,
): Promise<void> {
  let expected: unknown;
  for (const { name, server, target } of contenders) {
    const actual = normalize(await loader.open(server.url, target), name);
    expected ??= actual;
    if (actual !== undefined) {
      deepStrictEqual(actual, expected, `${name} has another response`);
    }
    // Counts calls instead of time, because compiling the code takes longer on a busy machine.
    const startMs = performance.now();
    for (let calls = 0; calls < warmUpCalls && performance.now() - startMs < warmUpMs;) {
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
  return [...slices].map(([name, own]): Row => {
    const rates = own.map(({ perSecond }) => perSecond);
    return {
      "": name,
      "calls/s": median(rates).toFixed(0),
      quartiles: quartiles(rates)
        .map((rate) => rate.toFixed(0))
        .join(" to "),
      "CPU/call": `${median(own.map(({ cpuUsPerCall }) => cpuUsPerCall)).toFixed(1)} µs`,
      "server, load: CPU used": `${percent(own.map(({ cpuShare }) => cpuShare))}, ${percent(own.map(({ loaderShare }) => loaderShare))}`,
    };
  });
}

function percent(shares: readonly number[]): string {
  return `${(100 * median(shares)).toFixed(0)} %`;
}

/** Returns the ratio of each round; none if one of the two was not measured. */
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
