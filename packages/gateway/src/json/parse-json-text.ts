import { parseEscapedKeys } from "./parse-escaped-keys.ts";
import { skipSpace } from "./tokens.ts";

/** JSON.parse, but with the right keys: see `parseEscapedKeys`. Throws a SyntaxError if the text is malformed. */
export function parseJsonText(text: string): unknown {
  return hasEscapedKey(text) ? parseEscapedKeys(text) : JSON.parse(text);
}

/**
 * True if a key of a JSON document has an escape. Reads only the strings that have escapes. The text may also be the bytes of the
 * document as Latin-1. For malformed JSON the result has no meaning.
 */
export function hasEscapedKey(json: string): boolean {
  for (let escape = json.indexOf("\\"); escape !== -1;) {
    let quote = json.indexOf('"', escape + 2);
    escape = json.indexOf("\\", escape + 2);
    while (escape !== -1 && escape < quote) {
      if (quote === escape + 1) {
        quote = json.indexOf('"', quote + 1);
      }
      escape = json.indexOf("\\", escape + 2);
    }
    if (quote === -1) {
      return false;
    }
    if (json[skipSpace(json, quote + 1)] === ":") {
      return true;
    }
  }
  return false;
}
