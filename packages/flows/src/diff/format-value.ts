import type { JsonValue } from "../json.ts";
import { diffArrays } from "diff";
import type { Budget } from "../budget.ts";

const maxNameChars = 80;

/**
 * Formats how a value changed: `1 -> 2`, or for text of several lines the lines that differ. The first line follows the
 * name of the property. Nothing is shortened, so that a review shows the deployed value; clients shorten it at a
 * terminal.
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

/** Lines that were replaced by others. `line` counts from 1, in the text after the change. */
export type LineChange = {
  readonly line: number;
  readonly removed: readonly string[];
  readonly added: readonly string[];
};

// These limit the time: comparing two texts takes milliseconds if they differ in many lines. With each edit, all lines can be compared
// again: ten texts of 10,000 lines are within these limits.
const maxEdits = 100;
const maxTexts = 100;
const maxComparisons = 20_000_000;

/** The indentation of a line in the text of a diff. Counted before the text is made, since a line can be empty. */
const indentationBytes = 8;

/** Creates a function that compares texts line by line. Where that would take too long, it finds one change with all that differs. */
export function createLineComparer(budget: Budget): (before: string, after: string) => LineChange[] {
  let texts = 0;
  let comparisons = 0;
  return (before, after) => {
    const sides = [before.split("\n"), after.split("\n")] as const;
    const lines = sides[0].length + sides[1].length;
    const maxEditLength = Math.min(maxEdits, Math.floor((maxComparisons - comparisons) / lines));
    texts++;
    comparisons += lines * maxEditLength;
    const parts = texts <= maxTexts && maxEditLength > 0 ? diffArrays(...sides, { maxEditLength }) : undefined;
    const changes = parts === undefined ? [findWholeChange(...sides)] : toLineChanges(parts);
    for (const { removed, added } of changes) {
      budget.addOutput(indentationBytes * (removed.length + added.length));
    }
    return changes;
  };
}

type Part = NonNullable<ReturnType<typeof diffArrays<string>>>[number];

function toLineChanges(parts: readonly Part[]): LineChange[] {
  const changes: { line: number; removed: string[]; added: string[] }[] = [];
  let line = 1;
  let current: (typeof changes)[number] | undefined;
  for (const { added, removed, value } of parts) {
    if (!added && !removed) {
      current = undefined;
    } else {
      if (current === undefined) {
        current = { line, removed: [], added: [] };
        changes.push(current);
      }
      const side = current[added ? "added" : "removed"];
      value.forEach((each) => side.push(each));
    }
    line += removed ? 0 : value.length;
  }
  return changes;
}

/** Returns the change without the lines common to the beginning of both texts and to their end. */
function findWholeChange(before: readonly string[], after: readonly string[]): LineChange {
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
  return {
    line: start + 1,
    removed: before.slice(start, before.length - end),
    added: after.slice(start, after.length - end),
  };
}
