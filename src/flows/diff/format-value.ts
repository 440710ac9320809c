import type { JsonValue } from "@bufbuild/protobuf";
import type { LineChange } from "./line-changes.ts";

const maxValueChars = 80;
const maxLines = 12;
const maxLineChanges = 10;

/**
 * Formats how a value changed: `1 -> 2`, or for text of several lines the lines that differ, up to a maximum. The first line
 * follows the name of the property.
 */
export function formatChangedValue(
  before: JsonValue | undefined,
  after: JsonValue | undefined,
  compareLines: (before: string, after: string) => readonly LineChange[],
): string[] {
  if (typeof before === "string" && typeof after === "string" && (before.includes("\n") || after.includes("\n"))) {
    return formatChangedLines(compareLines(before, after));
  }
  return [`${formatValue(before)} -> ${formatValue(after)}`];
}

/** JSON on one line, shortened; `(none)` if there is no value. */
export function formatValue(value: JsonValue | undefined): string {
  if (value === undefined) {
    return "(none)";
  }
  const json = escapeControls(JSON.stringify(value));
  return json.length <= maxValueChars ? json : `${shorten(json)}... (${json.length} characters)`;
}

/** Escapes control and format characters, with which text could change how a terminal shows it. */
export function escapeControls(text: string): string {
  return text.replaceAll(
    /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu,
    (character) => String.raw`\u{${(character.codePointAt(0) as number).toString(16)}}`,
  );
}

function formatChangedLines(changes: readonly LineChange[]): string[] {
  const shown = changes
    .slice(0, maxLineChanges)
    .flatMap(({ line, removed, added }) => [
      `from line ${line}`,
      ...formatLines("-", removed),
      ...formatLines("+", added),
    ]);
  return changes.length <= maxLineChanges ? shown : [...shown, `... (${changes.length - maxLineChanges} more changes)`];
}

function formatLines(symbol: string, lines: readonly string[]): string[] {
  const shown = lines
    .slice(0, maxLines)
    .map((line) => `${symbol} ${shortenLine(escapeControls(line.replaceAll("\t", "  ")))}`);
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
