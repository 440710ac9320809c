import { diffArrays } from "diff";

/** Lines that were replaced by others. `line` counts from 1, in the text after the change. */
export type LineChange = {
  readonly line: number;
  readonly removed: readonly string[];
  readonly added: readonly string[];
};

// These limit the time: comparing two texts takes milliseconds if they differ in many lines.
const maxEdits = 100;
const maxTexts = 100;

/** Creates a function that compares texts line by line. Where that would take too long, it finds one change with all that differs. */
export function createLineComparer(): (before: string, after: string) => LineChange[] {
  let compared = 0;
  return (before, after) => {
    const sides = [before.split("\n"), after.split("\n")] as const;
    compared++;
    const parts = compared <= maxTexts ? diffArrays(...sides, { maxEditLength: maxEdits }) : undefined;
    return parts === undefined ? [findWholeChange(...sides)] : toLineChanges(parts);
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
      current[added ? "added" : "removed"].push(...value);
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
