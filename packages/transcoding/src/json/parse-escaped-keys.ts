import { endOfString, skipSpace } from "./tokens.ts";
import { isObject } from "./wide-integer.ts";

/** A lone surrogate: no other key begins with it unless it is escaped. */
const MARK = "\udc00";

/**
 * Parses JSON whose keys have escapes. Throws a SyntaxError if it is malformed.
 *
 * V8 14.6 (Node 26.10) can take such a key for one of an earlier document: it compares the characters of the known key with
 * those of the text before it decodes the escapes. After `{"a":1,"\\":1}`, the second key of `{"a":1,"\n":1}` is a backslash.
 * Therefore, JSON.parse gets unescaped keys instead, which are replaced afterwards. This can go when test/json-parse.test.ts
 * succeeds without it.
 */
export function parseEscapedKeys(text: string): unknown {
  const keys: string[] = [];
  const marks = new Map<string, string>();
  let marked = "";
  let from = 0;
  for (let at = text.indexOf('"'); at !== -1;) {
    const end = endOfString(text, at);
    if (end < 0) {
      throw new SyntaxError("a string is malformed");
    }
    const token = text.slice(at, end);
    if (token.includes("\\") && text[skipSpace(text, end)] === ":") {
      let mark = marks.get(token);
      if (mark === undefined) {
        mark = `"${MARK}${keys.length}"`;
        marks.set(token, mark);
        keys.push(JSON.parse(token) as string);
      }
      marked += text.slice(from, at) + mark;
      from = end;
    }
    at = text.indexOf('"', end);
  }
  return withKeys(JSON.parse(marked + text.slice(from)), keys);
}

/** Returns the value itself if it has no marked key, and changes the parts of it that have one. */
function withKeys(value: unknown, keys: readonly string[]): unknown {
  if (Array.isArray(value)) {
    for (const [at, item] of value.entries()) {
      value[at] = withKeys(item, keys);
    }
    return value;
  }
  if (!isObject(value)) {
    return value;
  }
  const names = Object.keys(value);
  if (names.some((name) => name.startsWith(MARK))) {
    // Made anew, so that the keys keep their order.
    return Object.fromEntries(
      names.map((name) => [
        name.startsWith(MARK) ? (keys[Number(name.slice(1))] ?? name) : name,
        withKeys(value[name], keys),
      ]),
    );
  }
  for (const name of names) {
    const item = value[name];
    const replaced = withKeys(item, keys);
    if (replaced !== item) {
      // As an assignment, but a key __proto__ stays one.
      Object.defineProperty(value, name, { value: replaced });
    }
  }
  return value;
}
