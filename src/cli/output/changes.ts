import { printable } from "./printable.ts";
import type { Output } from "./output.ts";

type Styling = Pick<Output, "style" | "isShortened">;
type Format = Parameters<Output["style"]>[0];

/** How lines of a diff and of a plan begin, as the server formats them. Below a node, only lines of text are marked. */
const formats: readonly (readonly [RegExp, Format])[] = [
  [/^(?:tab|subflow) .*\): added$/, ["bold", "green"]],
  [/^(?:tab|subflow) .*\): removed$/, ["bold", "red"]],
  [/^(?:tab|subflow) .*\): changed$/, ["bold", "yellow"]],
  [/^\S/, "bold"],
  [/^(?: {2}| {8})\+ /, "green"],
  [/^(?: {2}| {8})- /, "red"],
  [/^ {2}~ /, "yellow"],
];

const effects: readonly (readonly [RegExp, Format])[] = [
  [/^missing type:/, "red"],
  [/^warning:/, "yellow"],
];

/** Colours a diff that the server has formatted for people, and shortens it at a terminal. */
export function styleDiff(text: string, output: Styling): string {
  const shown = output.isShortened ? shortenDiff(text) : text;
  return `${styleLines(shown, formats, output)}${shown === text ? "" : "\n\nLong values are shortened: --full shows them."}`;
}

/** Colours a plan: first its diff, if anything changes, then what it does to the nodes. The server's text has them in the other order. */
export function stylePlan(text: string, output: Styling): string {
  const effect = styleLines(text.slice(0, effectEnd(text)), effects, output);
  const diff = diffOf(text);
  return diff === "No changes.\n" ? effect : `${styleDiff(diff, output)}\n\n${effect}`;
}

/** The diff in the text of a plan: what follows the first empty line. */
export function diffOf(text: string): string {
  return text.slice(effectEnd(text)).trimStart();
}

function effectEnd(text: string): number {
  return text.indexOf("\n\n");
}

function styleLines(text: string, formats: readonly (readonly [RegExp, Format])[], output: Styling): string {
  return text
    .trimEnd()
    .split("\n")
    .map((line) => {
      // The server's text has no control characters, but it may be another server.
      const shown = printable(line);
      const [, format] = formats.find(([pattern]) => pattern.test(line)) ?? [];
      return format === undefined ? shown : output.style(format, shown);
    })
    .join("\n");
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
