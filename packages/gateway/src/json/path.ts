/** A place in a JSON document: member names and array indices, outermost first. */
export type JsonPath = readonly (string | number)[];

/** gRPC sends messages in headers, which are limited to a few kilobytes. */
const MAX_NAME = 64;

/**
 * Formats a path, such as `flows[3].wires`. A name that is not an identifier is quoted and escaped as in a normalized path (RFC 9535, section
 * 2.7): `flows[3]['a b']`. A name of more than `maxName` characters is shortened.
 */
export function formatPath(path: JsonPath, maxName = MAX_NAME): string {
  let text = "";
  for (const step of path) {
    if (typeof step === "number") {
      text += `[${step}]`;
    } else if (step.length <= maxName && /^[A-Za-z_$][\w$-]*$/.test(step)) {
      text += text === "" ? step : `.${step}`;
    } else {
      text += `['${escapeName(step.length <= maxName ? step : `${step.slice(0, maxName)}…`)}']`;
    }
  }
  return text;
}

/** JSON escapes the same characters, except for the quotes. */
function escapeName(name: string): string {
  return JSON.stringify(name)
    .slice(1, -1)
    .replaceAll('\\"', '"')
    .replaceAll("'", String.raw`\'`);
}

const step = /\[(\d+)\]|\['((?:[^'\\]|\\.)*)'\]|(?:^|\.)([A-Za-z_$][\w$-]*)/y;

/**
 * Splits a message into its leading path, as `formatPath` writes it, and the rest. The path is empty if there is none.
 */
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

/** The inverse of `escapeName`. */
function unescapeName(quoted: string): string {
  const json = quoted.replaceAll(/\\.|"/g, (text) => (text === '"' ? '\\"' : text === String.raw`\'` ? "'" : text));
  return JSON.parse(`"${json}"`) as string;
}
