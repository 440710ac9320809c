import { RequestError } from "../../../http/request-error.ts";
import { createDocumentCollector, type StreamDocument } from "./document.ts";

const TAB = 0x09;
const LINE_FEED = 0x0a;
const RETURN = 0x0d;
const SPACE = 0x20;
const QUOTE = 0x22;
const COMMA = 0x2c;
const OPEN_BRACKET = 0x5b;
const BACKSLASH = 0x5c;
const CLOSE_BRACKET = 0x5d;
const OPEN_BRACE = 0x7b;
const CLOSE_BRACE = 0x7d;

/**
 * Splits a streamed JSON array into its items as they arrive. An item is the text between two separators: a JSON parser finds what
 * is wrong with it. A blank body has no items. Throws a RequestError if the body is not an array, or of status 413 as soon as an item exceeds `maxBytes`.
 */
export async function* readItems(
  body: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
  maxBytes: number,
): AsyncGenerator<StreamDocument> {
  const findSeparator = createSeparatorSearch();
  let place: "before" | "inside" | "after" = "before";
  const { append, finish } = createDocumentCollector("item", maxBytes);
  for await (const chunk of body) {
    let at = 0;
    if (place === "before") {
      at = endOfSpace(chunk, at);
      if (at === chunk.length) {
        continue;
      }
      if (chunk[at] !== OPEN_BRACKET) {
        throw malformed("a JSON array was expected");
      }
      place = "inside";
      at++;
    }
    while (place === "inside" && at < chunk.length) {
      const end = findSeparator(chunk, at);
      append(chunk.subarray(at, end));
      at = end + 1;
      if (end === chunk.length) {
        break;
      }
      const item = finish();
      place = chunk[end] === CLOSE_BRACKET ? "after" : place;
      // Without items, there is nothing but space between the brackets.
      if (place === "inside" || item.number > 1 || endOfSpace(item.bytes, 0) < item.bytes.length) {
        yield item;
      }
    }
    if (place === "after" && endOfSpace(chunk, at) < chunk.length) {
      throw malformed("unexpected text after the end of the array");
    }
  }
  if (place === "inside") {
    throw malformed("unexpected end");
  }
}

/**
 * Creates the search for the comma or bracket that ends an item. It returns the length of the chunk if there is none; the next
 * search then continues in the next chunk.
 */
function createSeparatorSearch(): (chunk: Uint8Array, from: number) => number {
  let depth = 0;
  let inString = false;
  let isEscaped = false;
  const stepInString = (byte: number | undefined): void => {
    if (isEscaped) {
      isEscaped = false;
    } else if (byte === BACKSLASH) {
      isEscaped = true;
    } else if (byte === QUOTE) {
      inString = false;
    }
  };
  return (chunk, from) => {
    for (let at = from; at < chunk.length; at++) {
      const byte = chunk[at];
      if (inString) {
        stepInString(byte);
      } else if (byte === QUOTE) {
        inString = true;
      } else if (byte === OPEN_BRACKET || byte === OPEN_BRACE) {
        depth++;
      } else if (depth === 0 && (byte === COMMA || byte === CLOSE_BRACKET)) {
        return at;
      } else if (depth > 0 && (byte === CLOSE_BRACKET || byte === CLOSE_BRACE)) {
        depth--;
      }
    }
    return chunk.length;
  };
}

function endOfSpace(bytes: Uint8Array, from: number): number {
  let at = from;
  for (
    let byte = bytes[at];
    byte === SPACE || byte === LINE_FEED || byte === RETURN || byte === TAB;
    byte = bytes[at]
  ) {
    at++;
  }
  return at;
}

function malformed(what: string): RequestError {
  return new RequestError(400, "invalid_json", `the body is not valid JSON: ${what}`);
}
