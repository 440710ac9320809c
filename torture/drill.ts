import type { Row } from "../bench/benchmark.ts";
import type { Context } from "./context.ts";
import type { Program } from "./programs.ts";

/** A promise of the service, and a test that tries to break it. */
export type Drill = {
  /** The value of `--only`. */
  readonly name: string;
  readonly title: string;
  /** What is promised, in one sentence. */
  readonly promise: string;
  /** How the promise is tested: what is done, what is checked, and what the control plants. */
  readonly method: string;
  /** What it does not show, if that is not obvious. */
  readonly limits?: string;
  /** Programs that do not come with npm. The drill is skipped without them. */
  readonly programs?: readonly Program[];
  run(context: Context): Promise<Result>;
};

export type Result = {
  readonly loads: readonly Load[];
  readonly figures: readonly Figure[];
  /** The measurements behind the figures, as a table. */
  readonly rows?: readonly Row[];
  /** A description of each broken promise. */
  readonly violations: readonly string[];
  /** At least one. */
  readonly controls: readonly Control[];
};

/** How much was tried. Below the minimum the run is void, since it shows nothing. */
export type Load = { readonly name: string; readonly count: number; readonly minimum: number };

export type Figure = { readonly name: string; readonly value: number; readonly unit: Unit };

type Unit = "" | "ms" | "s" | "MiB" | "MiB/h" | "1/h" | "/s" | "%";

/** The check of the drill, applied to a planted fault: it must find it. */
export type Control = {
  /** The planted fault. */
  readonly planted: string;
  /** What the check found. Empty: the fault was missed, and the drill fails. */
  readonly found: readonly string[];
};

/** The reasons why a run does not count as passed. */
export function reasonsOfFailure({ loads, violations, controls }: Result): string[] {
  return [
    ...violations,
    ...loads
      .filter(({ count, minimum }) => count < minimum)
      .map(({ name, count, minimum }) => `void: ${count} ${name}, but at least ${minimum} are required`),
    ...controls.filter(({ found }) => found.length === 0).map(({ planted }) => `the control was missed: ${planted}`),
    ...(controls.length === 0 ? ["void: there is no control"] : []),
  ];
}
