import type { JsonPath } from "@flowgate/gateway/json-path";

const step = /\[(\d+)\]|\['((?:[^'\\]|\\.)*)'\]|(?:^|\.)([A-Za-z_$][\w$-]*)/y;

/** Splits an error message into the JSON path that it begins with, as `formatPath` writes it, and the rest. */
export function splitPath(message: string): { readonly path: JsonPath; readonly rest: string } {
  const path: (string | number)[] = [];
  let end = 0;
  for (step.lastIndex = 0; ; end = step.lastIndex) {
    const match = step.exec(message);
    if (match === null) {
      break;
    }
    const [, index, quoted, name = ""] = match;
    path.push(index === undefined ? (quoted === undefined ? name : unescapeName(quoted)) : Number(index));
  }
  return message.startsWith(": ", end) ? { path, rest: message.slice(end + 2) } : { path: [], rest: message };
}

/** The inverse of what `formatPath` does to a quoted name. */
function unescapeName(quoted: string): string {
  const json = quoted.replaceAll(/\\.|"/g, (text) => (text === '"' ? '\\"' : text === String.raw`\'` ? "'" : text));
  return JSON.parse(`"${json}"`) as string;
}
