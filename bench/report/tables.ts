import type { Row } from "../benchmark.ts";

/** Formats rows as aligned columns, one per key in order of first occurrence. */
export function formatTable(rows: readonly Row[]): string {
  const keys = [...new Set(rows.flatMap((row) => Object.keys(row)))];
  const lines = [Object.fromEntries(keys.map((key) => [key, key])), ...rows];
  const widths = keys.map((key) => Math.max(...lines.map((line) => (line[key] ?? "").length)));
  return lines
    .map((line) =>
      keys
        .map((key, column) => pad(line[key] ?? "", widths[column] ?? 0, isNumeric(rows, key)))
        .join("  ")
        .trimEnd(),
    )
    .map((line) => `  ${line}\n`)
    .join("");
}

function pad(text: string, width: number, isRight: boolean): string {
  return isRight ? text.padStart(width) : text.padEnd(width);
}

function isNumeric(rows: readonly Row[], key: string): boolean {
  return key !== "" && rows.every((row) => /^[\d.]*( ?(ms|µs|%|x|\/s))?$/.test(row[key] ?? ""));
}

export function formatMarkdownTable(rows: readonly Row[]): string {
  const keys = [...new Set(rows.flatMap((row) => Object.keys(row)))];
  const line = (cells: readonly string[]): string => `| ${cells.join(" | ")} |`;
  return [
    line(keys),
    `|${"---|".repeat(keys.length)}`,
    ...rows.map((row) => line(keys.map((key) => row[key] ?? ""))),
  ].join("\n");
}
