import { inspect } from "node:util";
import { maxLineChars } from "../output.ts";

/** The fields of an error in an event. */
export type ErrorText = {
  readonly message: string;
  readonly stack?: string;
  readonly line?: number;
  readonly column?: number;
};

/** Returns what a node has logged as text. A getter or an inspect function of a flow's object must not end the process. */
export function formatLogged(value: unknown): string {
  if (typeof value === "string") {
    return value;
  }
  try {
    if (value instanceof Error) {
      return value.stack ?? value.message;
    }
    return inspect(value, { depth: 4, maxArrayLength: 100, maxStringLength: maxLineChars, breakLength: Infinity });
  } catch {
    return "(a value that cannot be shown)";
  }
}

/** A text by which repeated errors are recognized. Unlike a description, it costs nothing. */
export function summarize(value: unknown): string {
  if (typeof value === "string") {
    return value;
  }
  try {
    const { name, message } = value as Partial<Error>;
    if (typeof message === "string") {
      return `${name}: ${message}`;
    }
  } catch {
    // As `formatLogged`.
  }
  return formatLogged(value);
}

/** Describes what a node has logged. `caller` is a stack of the call that logged it, for values that have none. */
export function describeError(value: unknown, caller?: string): ErrorText {
  const text = readStack(value) ?? formatLogged(value);
  const start = text.search(/\n\s+at /);
  const calls = text.slice(start === -1 ? text.length : start + 1).split("\n");
  const header = start === -1 ? text : text.slice(0, start);
  const shown = callsOf(calls);
  const place = shown.find(isInFunction) ?? callsOf(caller?.split("\n") ?? []).find(isInFunction);
  const stack = shown.map(({ text: call }) => call).join("\n");
  return {
    message: readMessage(value) ?? header,
    ...(stack !== "" && { stack }),
    ...(place !== undefined
      ? { line: place.line, ...(place.column !== undefined && { column: place.column }) }
      : lineOfSyntaxError(header)),
  };
}

/** Errors of function nodes are not instances of this realm's `Error`. */
function readStack(value: unknown): string | undefined {
  try {
    const { stack } = value as Partial<Error>;
    return typeof stack === "string" && stack !== "" ? stack.slice(0, 4 * maxLineChars) : undefined;
  } catch {
    return undefined;
  }
}

/** The runtime adds the line to the message of some errors, but not to their stack. */
function readMessage(value: unknown): string | undefined {
  try {
    const { name, message } = value as Partial<Error>;
    if (typeof message !== "string" || typeof name !== "string" || typeof value === "string") {
      return undefined;
    }
    return message.startsWith(name) ? message : `${name}: ${message}`;
  } catch {
    return undefined;
  }
}

type Call = { readonly text: string; readonly line?: number; readonly column?: number };

/** The lines, and characters on the first line, that the tested version puts before the code of a function node. */
export const functionPrefixes: Readonly<Record<string, { readonly lines: number; readonly chars: number }>> = {
  "": { lines: 1, chars: 0 },
  " setup": { lines: 17, chars: 24 },
  " cleanup": { lines: 16, chars: 24 },
};

const callInFunction = /(Function node( setup| cleanup|):.*):(\d+):(\d+)(\)?)$/;

/** The files of this program. */
const ownFolder = new URL(".", import.meta.url).href;

/** The calls outside of the runtime. Those in code of function nodes count from the first line of that. */
function callsOf(lines: readonly string[]): Call[] {
  const calls = lines
    .filter((line) => /^\s+at /.test(line) && !/[\\/]node_modules[\\/]|at node:|\(node:/.test(line))
    .filter((line) => !line.includes(ownFolder))
    .map((line) => {
      const match = callInFunction.exec(line);
      if (match === null) {
        return { text: line };
      }
      const [found, source = "", kind = "", inLine, inColumn, end = ""] = match;
      const prefix = functionPrefixes[kind];
      const at = Number(inLine) - (prefix?.lines ?? 0);
      const column = Number(inColumn) - (at === 1 ? (prefix?.chars ?? 0) : 0);
      return { text: `${line.slice(0, -found.length)}${source}:${at}:${column}${end}`, line: at, column };
    });
  const [before, last] = calls.slice(-2);
  return last !== undefined && isEntry(last, before) ? calls.slice(0, -1) : calls;
}

/** The id of the function node whose code an error comes from; undefined if it is not known. */
export function functionOf(error: unknown): string | undefined {
  // A name is in brackets.
  return /Function node(?: setup| cleanup|):(.*?)(?: \[.*\])?:\d+:\d+\)?$/m.exec(readStack(error) ?? "")?.[1];
}

/** Where the runtime calls the code of a function node, and that of its setup and cleanup: on the line after it. */
const entryColumns: ReadonlySet<number> = new Set([3, 23]);

/** True if it is the call of the code, which is not part of it. */
function isEntry({ text, line = 0, column = 0 }: Call, before: Call | undefined): boolean {
  return entryColumns.has(column) && !text.endsWith(")") && line > (before?.line ?? Infinity);
}

function isInFunction(call: Call): call is Call & { readonly line: number } {
  return call.line !== undefined && call.line > 0;
}

/** V8 puts the place of a syntax error before its message, without a column. */
function lineOfSyntaxError(text: string): { readonly line?: number } {
  const [, kind = "", line] = /^Function node( setup| cleanup|):.*:(\d+)\n/.exec(text) ?? [];
  const at = Number(line) - (functionPrefixes[kind]?.lines ?? 0);
  return at > 0 ? { line: at } : {};
}
