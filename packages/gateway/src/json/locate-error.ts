import { RequestError } from "../http/request-error.ts";
import { formatPath, type JsonPath } from "./path.ts";
import { endOfNumber, endOfString, endOfWord, skipSpace } from "./tokens.ts";

/** An object or an array whose end has not been reached. */
type Level = {
  /** The keys so far; undefined for an array. */
  readonly keys: Set<string> | undefined;
  readonly end: "}" | "]";
  /** The current key or index. */
  at: string | number;
};

/**
 * Returns the first error that `parseJson` reports for a document, which must have one. To find the line, the column and
 * the path, it parses the whole grammar, which takes several times as long as JSON.parse.
 */
export function locateJsonError(
  text: string,
  maxDepth: number,
  { root = [], prototypeKeys }: { readonly root?: JsonPath; readonly prototypeKeys?: "accept" | "reject" },
): RequestError {
  const levels: Level[] = [];
  const path = (): string => formatPath([...root, ...levels.map((level) => level.at)]);
  const malformed = (at: number, what: string): RequestError => {
    const before = text.slice(0, at);
    const place = `line ${before.split("\n").length}, column ${at - before.lastIndexOf("\n")}`;
    return new RequestError(400, "invalid_json", `the body is not valid JSON: ${what} (${place})`);
  };
  const rejected = (what: string): RequestError =>
    new RequestError(400, "invalid_json", `${path() || "the body"}: ${what}`, { repeatsInput: true });

  let at = skipSpace(text, 0);
  if (at === text.length) {
    return new RequestError(400, "invalid_json", "the body is empty; a JSON document was expected");
  }
  // Each round reads one value, the key before it in an object, and the closing brackets after it.
  for (let level: Level | undefined; ;) {
    if (level?.keys !== undefined) {
      const end = text[at] === '"' ? endOfString(text, at) : -1 - at;
      if (end < 0) {
        return malformed(-1 - end, "a key in double quotes was expected");
      }
      const key = stringAt(text, at, end);
      level.at = key;
      if (key === "__proto__" && prototypeKeys === "reject") {
        return rejected("this key is not allowed");
      }
      if (!key.isWellFormed()) {
        return rejected("the key has a lone surrogate");
      }
      if (level.keys.size === level.keys.add(key).size) {
        return rejected("duplicate key");
      }
      at = skipSpace(text, end);
      if (text[at] !== ":") {
        return malformed(at, "':' was expected");
      }
      at = skipSpace(text, at + 1);
    }

    const first = text[at];
    if (first === "{" || first === "[") {
      if (levels.length === maxDepth) {
        return new RequestError(400, undefined, `${path().slice(0, 200)}: nested deeper than ${maxDepth} levels`, {
          repeatsInput: true,
        });
      }
      level = first === "{" ? { keys: new Set(), end: "}", at: 0 } : { keys: undefined, end: "]", at: 0 };
      levels.push(level);
      at = skipSpace(text, at + 1);
      if (text[at] !== level.end) {
        continue;
      }
    } else if (first === '"') {
      const end = endOfString(text, at);
      if (end < 0) {
        return malformed(-1 - end, "a string is not terminated, or has a control character or an invalid escape");
      }
      if (!stringAt(text, at, end).isWellFormed()) {
        return rejected("a string with a lone surrogate");
      }
      at = end;
    } else {
      const isWord = first === "t" || first === "f" || first === "n";
      const end = isWord ? endOfWord(text, at) : endOfNumber(text, at);
      if (end < 0) {
        return malformed(at, at === text.length ? "unexpected end" : "a value was expected");
      }
      // The shortest number that is too large is 1e309.
      if (end - at >= 5 && !isWord && !Number.isFinite(Number(text.slice(at, end)))) {
        return rejected("a number beyond the range of a double");
      }
      at = end;
    }

    for (at = skipSpace(text, at); level !== undefined && text[at] === level.end; at = skipSpace(text, at + 1)) {
      levels.pop();
      level = levels.at(-1);
    }
    if (level === undefined) {
      return malformed(at, "unexpected text after the end of the document");
    }
    if (text[at] !== ",") {
      return malformed(at, at === text.length ? "unexpected end" : `',' or '${level.end}' was expected`);
    }
    at = skipSpace(text, at + 1);
    if (typeof level.at === "number") {
      level.at++;
    }
  }
}

function stringAt(text: string, start: number, end: number): string {
  const token = text.slice(start + 1, end - 1);
  return token.includes("\\") ? (JSON.parse(`"${token}"`) as string) : token;
}
