import { RequestError } from "../http/request-error.ts";
import { decodeSegments } from "./template.ts";

/** Anything but ASCII that stands for itself in a query. */
const special = /[^!-$&-*,-~]/;

/**
 * Decodes a parameter's name or value (WHATWG URL, section 5.1), but strictly: a bad escape or bad UTF-8 is a
 * fault. The text holds one character for each byte.
 */
export function decodeParameter(text: string, from: "query" | "form"): string {
  if (!special.test(text)) {
    return text;
  }
  const decoded = decode(text.replaceAll("+", " "), decodeURIComponent);
  if (decoded === undefined) {
    throw new RequestError(400, undefined, `the ${from} is badly encoded: percent-escapes of UTF-8 were expected`);
  }
  return decoded;
}

/**
 * Decodes what a variable of a path captured; undefined where it can't be. A slash in a segment stays escaped where
 * the variable has several segments, lest it be taken for one between two.
 */
export function decodePathVariable(text: string, multi: boolean): string | undefined {
  return /[^!-$&-~]/.test(text) ? decode(text, multi ? decodeSegments : decodeURIComponent) : text;
}

function decode(text: string, decoder: (text: string) => string): string | undefined {
  // Bytes beyond ASCII may stand there unescaped: escape them, so that one decoder reads all UTF-8.
  const escaped = text.replaceAll(/[\u0080-\u00ff]/g, (byte) => `%${byte.charCodeAt(0).toString(16)}`);
  if (/[^\0-\u007f]/.test(escaped)) {
    return undefined;
  }
  try {
    return decoder(escaped);
  } catch (error) {
    if (error instanceof URIError) {
      return undefined;
    }
    throw error;
  }
}
