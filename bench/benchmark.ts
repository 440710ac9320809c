export type Benchmark = {
  /** The value of `--only`, and the name of its chart. */
  readonly name: string;
  readonly title: string;
  run(effort: Effort): Promise<Result>;
};

export type Effort = {
  /** How often the servers are restarted, because the speed of compiled code differs between processes. */
  readonly starts: number;
  /** Measurements of each contender after each start. */
  readonly rounds: number;
  readonly sliceMs: number;
  /** A contender is warmed up by so many calls, unless they take longer than `warmUpMs`. */
  readonly warmUpCalls: number;
  readonly warmUpMs: number;
  /** Directory for the CPU profile of the service; undefined for no profile. */
  readonly profileDir: string | undefined;
};

export type Result = {
  readonly figures: readonly Figure[];
  /** The measurements behind the figures, as a table. */
  readonly rows: readonly Row[];
  readonly chart: readonly Panel[];
  /** Why peers could not run. */
  readonly notes?: readonly string[];
};

type Unit = "x" | "ms" | "s" | "KiB" | "MiB";

type Goal = { readonly kind: "atLeast" | "atMost"; readonly value: number };

export type Figure = {
  readonly title: string;
  readonly unit: Unit;
  /** In any order. The median and the quartiles are reported. Empty if it was not measured. */
  readonly values: readonly number[];
  /** For a ratio of rates, the ratio of CPU times per call, which depends less on other work of the machine. */
  readonly byCpu?: readonly number[];
  /** Undefined for a figure without a goal. */
  readonly goal?: Goal | undefined;
};

export type Row = Readonly<Record<string, string>>;

/** Bars of one quantity, one per contender. */
export type Panel = { readonly title: string; readonly bars: readonly Bar[] };

export type Bar = { readonly label: string; readonly values: readonly number[] };
