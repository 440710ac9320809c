import { endOfString, skipSpace } from "./tokens.ts";
import { isObject } from "./object.ts";

/** A lone surrogate: no other key begins with it unless it is escaped. */
const MARK = "\udc00";

/**
 * Parses JSON whose keys have escapes. Throws a SyntaxError if it is malformed.
 *
 * V8 14.6 (Node 26.10) can take such a key for one of an earlier document: it compares the characters of the known key with
 * those of the text before it decodes the escapes. After `{"a":1,"\\":1}`, the second key of `{"a":1,"\n":1}` is a backslash.
 * Therefore, JSON.parse gets unescaped keys instead, which are replaced afterwards. This can go when test/json/parse.test.ts
 * succeeds without it.
 */
export function parseEscapedKeys(text: string): unknown {
  // With a mark for each key, objects with the same keys share a hidden class.
  const shared = replaceKeys(text, true);
  return shared.hasRepeatedKey ? replaceKeys(text, false).value : shared.value;
}

type Keys = { readonly names: string[]; hasRepeatedKey: boolean };

/**
 * With shared marks, the value is wrong if an object has the same key twice with different escapes, which `hasRepeatedKey` reports;
 * without, the last member wins.
 */
function replaceKeys(
  text: string,
  sharesMarks: boolean,
): { readonly value: unknown; readonly hasRepeatedKey: boolean } {
  const keys: Keys = { names: [], hasRepeatedKey: false };
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
      let mark = sharesMarks ? marks.get(token) : undefined;
      if (mark === undefined) {
        mark = `"${MARK}${keys.names.length}"`;
        marks.set(token, mark);
        keys.names.push(JSON.parse(token) as string);
      }
      marked += text.slice(from, at) + mark;
      from = end;
    }
    at = text.indexOf('"', end);
  }
  const value = withKeys(JSON.parse(marked + text.slice(from)), keys);
  return { value, hasRepeatedKey: keys.hasRepeatedKey };
}

/** Returns the value itself if it has no marked key, and changes the parts of it that have one. */
function withKeys(value: unknown, keys: Keys): unknown {
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
  if (names.some(isMarked)) {
    // Made anew, so that the keys keep their order.
    const nameOf = (name: string) => (isMarked(name) ? (keys.names[Number(name.slice(1))] ?? name) : name);
    const named = Object.fromEntries(names.map((name) => [nameOf(name), withKeys(value[name], keys)]));
    keys.hasRepeatedKey ||= Object.keys(named).length < names.length;
    return named;
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

function isMarked(key: string): boolean {
  return key.startsWith(MARK);
}
