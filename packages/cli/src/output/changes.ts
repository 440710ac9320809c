import { NodeChangeSchema, type PlanFlowsResponse } from "@flowgate/client";
import type { Output, Style } from "./output.ts";
import { printable } from "../printable.ts";
import { formatEnum } from "./values.ts";

type Styling = Pick<Output, "style" | "isShortened">;

/** A diff, as text that the server has formatted and as data. */
type Diff = Pick<PlanFlowsResponse, "diff" | "text">;

type Plan = Diff & Pick<PlanFlowsResponse, "missingTypes" | "modules" | "warnings">;

export function hasChanges({ diff }: Pick<Diff, "diff">): boolean {
  return diff !== undefined && diff.containers.length > 0;
}

/**
 * Colours a plan: first its diff, if anything changes, then what it does to the nodes. The server's text has them in the other
 * order, with the numbers of nodes in the first line, which `numbers` replaces. It only counts the warnings that the active flows have too, which
 * `allWarnings` lists.
 */
export function stylePlan(
  plan: Plan,
  output: Styling,
  {
    numbers,
    allWarnings = false,
  }: { readonly numbers?: string | undefined; readonly allWarnings?: boolean | undefined } = {},
): string {
  const { text, missingTypes, modules, warnings } = plan;
  const listed = allWarnings ? warnings.filter(({ existing }) => existing) : [];
  const [first = "", ...lines] = text.slice(0, effectEnd(text)).split("\n");
  const effect = [
    numbers ?? printable(first),
    // A line for each of them, and then for each warning.
    ...lines.map((line, at) => {
      const style = at < missingTypes.length ? "red" : at < missingTypes.length + modules.length ? [] : "yellow";
      return output.style(style, printable(line));
    }),
    ...listed.map(({ message }) => output.style("yellow", `  ${printable(message)}`)),
  ].join("\n");
  return hasChanges(plan) ? `${styleDiff({ ...plan, text: diffOf(text) }, output)}\n\n${effect}` : effect;
}

/** The diff in the text of a plan: what follows the first empty line. */
export function diffOf(text: string): string {
  return text.slice(effectEnd(text)).trimStart();
}

function effectEnd(text: string): number {
  return text.indexOf("\n\n");
}

/** Colours a diff, and shortens it at a terminal. */
export function styleDiff({ diff, text }: Diff, output: Styling): string {
  const shown = output.isShortened ? shortenDiff(text) : text;
  // The numbers of changes are in the first line. Each container has a line that is not indented.
  const titles: Style[] = ["bold"];
  for (const { id, nodes } of diff?.containers ?? []) {
    const own = nodes.find((node) => node.id === id);
    titles.push(own === undefined ? "bold" : ["bold", ...styleOf(formatEnum(NodeChangeSchema, own.change))]);
  }
  const lines = shown
    .trimEnd()
    .split("\n")
    .map((line) => {
      const [, mark = ""] = /^(?: {2}| {8})([-+~]) /.exec(line) ?? [];
      const style = /^\S/.test(line) ? (titles.shift() ?? "bold") : styleOf(mark);
      // The server's text has no control characters, but it may be another server.
      return output.style(style, printable(line));
    });
  return [...lines, ...(shown === text ? [] : ["", "Long values are shortened: --full shows them."])].join("\n");
}

/** Of a change of a node, or its mark, which also lines of text have. */
function styleOf(change: string): readonly ("green" | "red" | "yellow")[] {
  switch (change) {
    case "added":
    case "+":
      return ["green"];
    case "removed":
    case "-":
      return ["red"];
    case "changed":
    case "~":
      return ["yellow"];
    default:
      return [];
  }
}

const maxValueChars = 80;
const maxPropertyChars = 300;
const maxLines = 12;

/** Shortens strings, text of several lines, and other long values. Names of nodes are short already. */
function shortenDiff(text: string): string {
  const shown: string[] = [];
  let symbol: string | undefined;
  let count = 0;
  const noteMore = (): void => {
    if (symbol !== undefined && count > maxLines) {
      shown.push(`        ${symbol} ... (${count - maxLines} more lines)`);
    }
  };
  for (const line of text.split("\n")) {
    const [prefix, next] = /^ {8}([+-]) /.exec(line) ?? [];
    if (next === undefined || next !== symbol) {
      noteMore();
      symbol = next;
      count = 0;
    }
    count += 1;
    if (prefix === undefined) {
      shown.push(/^ {6}\S/.test(line) ? cut(cutStrings(line), maxPropertyChars) : line);
    } else if (count <= maxLines) {
      shown.push(cut(line, prefix.length + maxValueChars));
    }
  }
  noteMore();
  return shown.join("\n");
}

/** Shortens the JSON strings of a line. */
function cutStrings(line: string): string {
  const parts: string[] = [];
  let from = 0;
  for (let start = line.indexOf('"'); start !== -1; start = line.indexOf('"', from)) {
    let end = start + 1;
    while (end < line.length && line[end] !== '"') {
      end += line[end] === "\\" ? 2 : 1;
    }
    parts.push(line.slice(from, start), cut(line.slice(start, end + 1), maxValueChars));
    from = end + 1;
  }
  return [...parts, line.slice(from)].join("");
}

/** Never splits a surrogate pair. */
function cut(text: string, maxChars: number): string {
  if (text.length <= maxChars) {
    return text;
  }
  const start = text.slice(0, maxChars);
  return `${start.isWellFormed() ? start : start.slice(0, -1)}... (${text.length} characters)`;
}
