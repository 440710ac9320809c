import type { JsonValue } from "@bufbuild/protobuf";

const maxValueChars = 80;
const maxLines = 12;

/**
 * Formats how a value changed: `1 -> 2`, or for text of several lines the lines that differ, up to a maximum. The first line
 * follows the name of the property.
 */
export function formatChangedValue(before: JsonValue | undefined, after: JsonValue | undefined): string[] {
  if (typeof before === "string" && typeof after === "string" && (before.includes("\n") || after.includes("\n"))) {
    return formatChangedLines(before.split("\n"), after.split("\n"));
  }
  return [`${formatValue(before)} -> ${formatValue(after)}`];
}

/** JSON on one line, shortened; `(none)` if there is no value. */
export function formatValue(value: JsonValue | undefined): string {
  if (value === undefined) {
    return "(none)";
  }
  const json = printable(JSON.stringify(value));
  return json.length <= maxValueChars ? json : `${shorten(json)}... (${json.length} characters)`;
}

/** Escapes control and format characters, with which text could change how a terminal shows it. */
export function printable(text: string): string {
  return text.replaceAll(
    /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu,
    (character) => String.raw`\u{${(character.codePointAt(0) as number).toString(16)}}`,
  );
}

function formatChangedLines(before: readonly string[], after: readonly string[]): string[] {
  const isSame = (index: number): boolean => before.at(index) === after.at(index);
  const shorter = Math.min(before.length, after.length);
  let start = 0;
  while (start < shorter && isSame(start)) {
    start++;
  }
  let end = 0;
  while (end < shorter - start && isSame(-1 - end)) {
    end++;
  }
  return [
    `from line ${start + 1}`,
    ...formatLines("-", before.slice(start, before.length - end)),
    ...formatLines("+", after.slice(start, after.length - end)),
  ];
}

function formatLines(symbol: string, lines: readonly string[]): string[] {
  const shown = lines.slice(0, maxLines).map((line) => `${symbol} ${shortenLine(printable(line))}`);
  return lines.length <= maxLines ? shown : [...shown, `${symbol} ... (${lines.length - maxLines} more lines)`];
}

function shortenLine(line: string): string {
  return line.length <= maxValueChars ? line : `${shorten(line)}...`;
}

/** Never splits a surrogate pair. */
function shorten(text: string): string {
  const cut = text.slice(0, maxValueChars);
  return cut.isWellFormed() ? cut : cut.slice(0, -1);
}
