import { printable } from "./printable.ts";
import type { Output } from "./output.ts";

type Styling = Pick<Output, "style">;
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

/** Colours a diff that the server has formatted for people. */
export function styleDiff(text: string, output: Styling): string {
  return styleLines(text, formats, output);
}

/** Colours a plan: first its diff, then what it does to the nodes. The server's text has them in the other order. */
export function stylePlan(text: string, output: Styling): string {
  const effect = text.slice(0, effectEnd(text));
  return `${styleDiff(diffOf(text), output)}\n\n${styleLines(effect, effects, output)}`;
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
