import type { Figure, Row } from "../benchmark.ts";
import { formatNumber, formatSpread, median } from "../statistics.ts";

type Verdict = "MET" | "MISS" | "not run" | "";

/** Empty if there is no goal. */
function verdictOf({ goal, values }: Figure): Verdict {
  if (values.length === 0) {
    return "not run";
  }
  if (goal === undefined) {
    return "";
  }
  const value = median(values);
  return (goal.kind === "atLeast" ? value >= goal.value : value <= goal.value) ? "MET" : "MISS";
}

/** Returns the row of the summary. */
export function rowOf(figure: Figure): Row {
  const { title, unit, values, byCpu = [], goal } = figure;
  const ofUnit = unit === "x" ? "" : ` ${unit}`;
  return {
    work: title,
    measured: values.length === 0 ? "" : `${formatSpread(values, formatNumber)}${ofUnit}`,
    "by CPU": byCpu.length === 0 ? "" : formatSpread(byCpu),
    goal: goal === undefined ? "" : `${goal.kind === "atLeast" ? "≥" : "≤"} ${goal.value}${ofUnit}`,
    "": verdictOf(figure),
  };
}
