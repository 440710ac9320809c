import type { JsonPath } from "./path.ts";
import { endOfNumber, endOfString, endOfWord, skipSpace } from "./tokens.ts";

/**
 * Returns the position at which the value at a path begins in the text of a document, which must be valid; the position
 * of its nearest ancestor if there is none.
 */
export function findJsonValue(text: string, path: JsonPath): number {
  let at = skipSpace(text, 0);
  for (const step of path) {
    const found = findChild(text, at, step);
    if (found === undefined) {
      break;
    }
    at = found;
  }
  return at;
}

/** Finds a member of an object, or an element of an array. */
function findChild(text: string, parent: number, step: string | number): number | undefined {
  const isObject = text[parent] === "{";
  if (isObject ? typeof step !== "string" : text[parent] !== "[" || typeof step !== "number") {
    return undefined;
  }
  let at = skipSpace(text, parent + 1);
  for (let index = 0; text[at] !== "}" && text[at] !== "]"; index++) {
    let key: string | number = index;
    if (isObject) {
      const end = endOfString(text, at);
      key = JSON.parse(text.slice(at, end)) as string;
      // What follows is a colon.
      at = skipSpace(text, skipSpace(text, end) + 1);
    }
    if (key === step) {
      return at;
    }
    at = skipSpace(text, endOfValue(text, at));
    if (text[at] === ",") {
      at = skipSpace(text, at + 1);
    }
  }
  return undefined;
}

function endOfValue(text: string, start: number): number {
  let at = start;
  let depth = 0;
  do {
    const char = text[at];
    if (char === '"') {
      at = endOfString(text, at);
    } else if (char === "{" || char === "[") {
      depth++;
      at++;
    } else if (char === "}" || char === "]") {
      depth--;
      at++;
    } else if (char === "," || char === ":") {
      at++;
    } else {
      at = char === "t" || char === "f" || char === "n" ? endOfWord(text, at) : endOfNumber(text, at);
    }
    if (depth > 0) {
      at = skipSpace(text, at);
    }
  } while (depth > 0);
  return at;
}
