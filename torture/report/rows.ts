import type { Row } from "../../bench/benchmark.ts";
import { formatNumber } from "../../bench/statistics.ts";
import type { Figure, Load } from "../drill.ts";

export function loadRow({ name, count, minimum }: Load): Row {
  return { figure: name, value: formatCount(count), "void below": formatCount(minimum) };
}

export function figureRow({ name, value, unit }: Figure): Row {
  const number = Number.isInteger(value) ? formatCount(value) : formatNumber(value);
  return { figure: name, value: unit === "" ? number : `${number} ${unit}` };
}

function formatCount(count: number): string {
  return count.toLocaleString("en-US");
}
