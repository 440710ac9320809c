import { endOfString, skipSpace } from "./tokens.ts";
import { isObject } from "./wide-integer.ts";

const QUOTE = 0x22;
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
  let marked = "";
  let from = 0;
  for (let at = 0; at < text.length;) {
    if (text.charCodeAt(at) !== QUOTE) {
      at++;
      continue;
    }
    const end = endOfString(text, at);
    if (end < 0) {
      throw new SyntaxError("a string is malformed");
    }
    const token = text.slice(at, end);
    if (text[skipSpace(text, end)] === ":" && token.includes("\\")) {
      marked += `${text.slice(from, at)}"${MARK}${keys.length}"`;
      keys.push(JSON.parse(token) as string);
      from = end;
    }
    at = end;
  }
  return withKeys(JSON.parse(marked + text.slice(from)), keys);
}

function withKeys(value: unknown, keys: readonly string[]): unknown {
  if (Array.isArray(value)) {
    return value.map((item) => withKeys(item, keys));
  }
  if (!isObject(value)) {
    return value;
  }
  return Object.fromEntries(
    Object.entries(value).map(([key, item]) => [
      key.startsWith(MARK) ? (keys[Number(key.slice(1))] ?? key) : key,
      withKeys(item, keys),
    ]),
  );
}
