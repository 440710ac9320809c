import type { JsonValue } from "@bufbuild/protobuf";
import type { LineChange } from "./line-changes.ts";

const maxNameChars = 80;

/**
 * Formats how a value changed: `1 -> 2`, or for text of several lines the lines that differ. The first line follows the name of the
 * property. Nothing is shortened, so that a review sees what is deployed: clients do that at a terminal.
 */
export function formatChangedValue(
  before: JsonValue | undefined,
  after: JsonValue | undefined,
  compareLines: (before: string, after: string) => readonly LineChange[],
): string[] {
  if (typeof before === "string" && typeof after === "string" && (before.includes("\n") || after.includes("\n"))) {
    return compareLines(before, after).flatMap(({ line, removed, added }) => [
      `from line ${line}`,
      ...formatLines("-", removed),
      ...formatLines("+", added),
    ]);
  }
  return [`${formatValue(before)} -> ${formatValue(after)}`];
}

/** JSON on one line; `(none)` if there is no value. */
function formatValue(value: JsonValue | undefined): string {
  return value === undefined ? "(none)" : escapeControls(JSON.stringify(value));
}

/** A name as a JSON string, shortened, since it is repeated by each reference to the node. */
export function formatName(name: string): string {
  const json = formatValue(name);
  return json.length <= maxNameChars ? json : `${shorten(json)}... (${json.length} characters)`;
}

/** Escapes control and format characters, with which text could change how a terminal shows it. */
export function escapeControls(text: string): string {
  return text.replaceAll(
    /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu,
    (character) => String.raw`\u{${(character.codePointAt(0) as number).toString(16)}}`,
  );
}

function formatLines(symbol: string, lines: readonly string[]): string[] {
  return lines.map((line) => `${symbol} ${escapeControls(line.replaceAll("\t", "  "))}`);
}

/** Never splits a surrogate pair. */
function shorten(text: string): string {
  const cut = text.slice(0, maxNameChars);
  return cut.isWellFormed() ? cut : cut.slice(0, -1);
}
