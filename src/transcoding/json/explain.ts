import { Fault, formatPath, type JsonPath } from "../fault.ts";

/** An object or an array that is being read. */
type Level = {
  /** Of an object: its keys so far; of an array: undefined. */
  keys: Set<string> | undefined;
  /** The key or the index that is being read. */
  at: string | number;
};

const space = /[ \t\n\r]*/y;
const number = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y;
const word = /true|false|null/y;
const escape = /\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})/y;

/**
 * The first thing that `parseJson` refuses in a document, or undefined. Slow, and only for documents
 * that are suspect: it reads the whole grammar to be able to say the line, the column and the path.
 */
export function explainJson(text: string, maxDepth: number, root: Readonly<JsonPath>): Fault | undefined {
  const levels: Level[] = [];
  let at = 0;

  const path = (): string => formatPath([...root, ...levels.map((level) => level.at)]);
  const malformed = (what: string): Fault => {
    const before = text.slice(0, at);
    const place = `line ${before.split("\n").length}, column ${at - before.lastIndexOf("\n")}`;
    return new Fault(400, "invalid_json", `the body is not valid JSON: ${what} (${place})`);
  };
  const refused = (what: string): Fault =>
    new Fault(400, "invalid_json", `${path() || "the body"}: ${what}`, { echoes: true });
  const read = (token: RegExp): string | undefined => {
    token.lastIndex = at;
    const found = token.exec(text)?.[0];
    at += found?.length ?? 0;
    return found;
  };

  // Not one regular expression: over a string of megabytes it would run out of stack.
  const readString = (): string | undefined => {
    const start = at;
    for (at++; text[at] !== '"';) {
      const char = text[at];
      if (char === undefined || char < " " || (char === "\\" && read(escape) === undefined)) {
        return undefined;
      }
      at += char === "\\" ? 0 : 1;
    }
    at++;
    return text.slice(start, at);
  };

  /** Reads a key and its colon, or says why not; an array has none to read. */
  const readKey = (level: Level): Fault | undefined => {
    if (level.keys === undefined) {
      return undefined;
    }
    const token = text[at] === '"' ? readString() : undefined;
    if (token === undefined) {
      return malformed("a key in double quotes was expected");
    }
    const key = JSON.parse(token) as string;
    level.at = key;
    if (key === "__proto__") {
      return refused("this key is not allowed");
    }
    if (!key.isWellFormed()) {
      return refused("the key has a lone surrogate");
    }
    if (level.keys.has(key)) {
      return refused("this key stands twice in its object");
    }
    level.keys.add(key);
    read(space);
    if (text[at] !== ":") {
      return malformed("':' was expected");
    }
    at++;
    read(space);
    return undefined;
  };
  const readScalar = (): Fault | undefined => {
    if (text[at] === '"') {
      const token = readString();
      if (token === undefined) {
        return malformed("a string that does not end, or has a control character or an unknown escape");
      }
      return token.includes("\\u") && !(JSON.parse(token) as string).isWellFormed()
        ? refused("a string with a lone surrogate")
        : undefined;
    }
    if (read(word) !== undefined) {
      return undefined;
    }
    const digits = read(number);
    if (digits === undefined) {
      return malformed(at === text.length ? "it ends too early" : "a value was expected");
    }
    return Number.isFinite(Number(digits)) ? undefined : refused("a number beyond the range of a double");
  };

  read(space);
  if (at === text.length) {
    return new Fault(400, "invalid_json", "the body is empty; a JSON document was expected");
  }
  for (;;) {
    // A value. An object or array that is not empty goes on with its first value.
    const bracket = text[at];
    if (bracket === "{" || bracket === "[") {
      if (levels.length === maxDepth) {
        return new Fault(400, undefined, `${path().slice(0, 200)}: nested deeper than ${maxDepth} levels`, {
          echoes: true,
        });
      }
      const level: Level = { keys: bracket === "{" ? new Set() : undefined, at: 0 };
      levels.push(level);
      at++;
      read(space);
      if (text[at] === (bracket === "{" ? "}" : "]")) {
        at++;
        levels.pop();
      } else {
        const fault = readKey(level);
        if (fault !== undefined) {
          return fault;
        }
        continue;
      }
    } else {
      const fault = readScalar();
      if (fault !== undefined) {
        return fault;
      }
    }
    // What follows: the next value of its level, or the end of levels.
    for (;;) {
      read(space);
      const level = levels.at(-1);
      if (level === undefined) {
        return at === text.length ? undefined : malformed("more follows behind the end of the document");
      }
      const end = level.keys === undefined ? "]" : "}";
      if (text[at] === ",") {
        at++;
        read(space);
        if (typeof level.at === "number") {
          level.at++;
        }
        const fault = readKey(level);
        if (fault !== undefined) {
          return fault;
        }
        break;
      }
      if (text[at] !== end) {
        return malformed(at === text.length ? "it ends too early" : `',' or '${end}' was expected`);
      }
      at++;
      levels.pop();
    }
  }
}
