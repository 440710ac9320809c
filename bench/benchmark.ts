export type Benchmark = {
  /** As `--only` takes it. */
  readonly name: string;
  readonly title: string;
  /** Undefined: the number is for information. */
  readonly goal: Goal | undefined;
  run(effort: Effort): Promise<Outcome>;
};

export type Goal = { readonly kind: "atLeast" | "atMost"; readonly value: number; readonly unit: "x" | "ms" };

export type Effort = {
  /** How often the servers are started anew: no two processes are compiled to the same speed. */
  readonly starts: number;
  /** Pairs of runs, or pairs of deployments. */
  readonly rounds: number;
  readonly secondsARun: number;
  readonly profileDir: string | undefined;
};

/** `value` is what the goal is about. */
export type Outcome = { readonly value: number; readonly rows: readonly Row[] };

export type Row = Readonly<Record<string, string>>;

export function isMet({ kind, value: limit }: Goal, value: number): boolean {
  return kind === "atLeast" ? value >= limit : value <= limit;
}
