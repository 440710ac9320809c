import type { Row } from "../benchmark.ts";

export function formatMarkdownTable(rows: readonly Row[]): string {
  const keys = [...new Set(rows.flatMap((row) => Object.keys(row)))];
  const line = (cells: readonly string[]): string => `| ${cells.join(" | ")} |`;
  return [
    line(keys),
    `|${"---|".repeat(keys.length)}`,
    ...rows.map((row) => line(keys.map((key) => row[key] ?? ""))),
  ].join("\n");
}
