import { diffArrays } from "diff";
import type { Budget } from "../budget.ts";

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

/** Of a line in the text of a diff. It is counted before the text is made, since a line can be empty. */
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

/** What is between the lines that both begin and end with. */
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
