export type Benchmark = {
  /** As `--only` takes it; names its chart. */
  readonly name: string;
  readonly title: string;
  run(effort: Effort): Promise<Result>;
};

export type Effort = {
  /** How often the servers are started anew: no two processes are compiled to the same speed. */
  readonly starts: number;
  /** Measurements of each contender after each start. */
  readonly rounds: number;
  readonly sliceMs: number;
  /** A contender is warmed up by so many calls, unless they take longer than `warmUpMs`. */
  readonly warmUpCalls: number;
  readonly warmUpMs: number;
  /** Where the service leaves its CPU profile; undefined: none is taken. */
  readonly profileDir: string | undefined;
};

export type Result = {
  readonly figures: readonly Figure[];
  /** The measurements behind the figures, as a table. */
  readonly rows: readonly Row[];
  readonly chart: readonly Panel[];
  /** Peers that could not run, and why. */
  readonly notes?: readonly string[];
};

type Unit = "x" | "ms" | "s" | "KiB" | "MiB";

type Goal = { readonly kind: "atLeast" | "atMost"; readonly value: number };

export type Figure = {
  readonly title: string;
  readonly unit: Unit;
  /** In any order; the median is the figure, the quartiles are its spread. Empty: it was not measured. */
  readonly values: readonly number[];
  /** Of a ratio of rates: the same ratio by CPU time per call, which other work on the machine changes less. */
  readonly byCpu?: readonly number[];
  /** Undefined: for information. */
  readonly goal?: Goal | undefined;
};

export type Row = Readonly<Record<string, string>>;

/** Bars of one quantity, one for each contender. */
export type Panel = { readonly title: string; readonly bars: readonly Bar[] };

export type Bar = { readonly label: string; readonly values: readonly number[] };
