import { RequestError } from "../http/request-error.ts";
import { decodeSegments } from "./template.ts";

/** Any character that does not represent itself in a query. */
const special = /[^!-$&-*,-~]/;

/**
 * Decodes the name or value of a parameter (application/x-www-form-urlencoded, WHATWG URL, section 5.1). Unlike there,
 * an invalid escape or invalid UTF-8 is a RequestError. `text` has one character for each byte.
 */
export function decodeParameter(text: string, from: "query" | "form"): string {
  if (!special.test(text)) {
    return text;
  }
  const decoded = decode(text.replaceAll("+", " "), decodeURIComponent);
  if (decoded === undefined) {
    throw new RequestError(400, undefined, `the ${from} is not valid percent-encoded UTF-8`);
  }
  return decoded;
}

/**
 * Decodes the value of a path variable, or a path segment; undefined if it has an invalid escape or invalid UTF-8.
 * `multi`: the variable has several segments, and "%2F" stays escaped so that it can't be confused with a separator.
 */
export function decodePathVariable(text: string, multi: boolean): string | undefined {
  return /[^!-$&-~]/.test(text) ? decode(text, multi ? decodeSegments : decodeURIComponent) : text;
}

/**
 * Decodes a whole path, without its fragment, which is invalid in a request target; undefined if it has an invalid
 * escape or invalid UTF-8. For exact paths: a template's path is split first.
 */
export function decodePath(path: string): string | undefined {
  return /[%#]/.test(path) ? decode(path.split("#", 1)[0] ?? "", decodeURIComponent) : path;
}

function decode(text: string, decoder: (text: string) => string): string | undefined {
  // Bytes above 0x7f may be sent unescaped: escape them, so that decodeURIComponent validates all of the UTF-8.
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
