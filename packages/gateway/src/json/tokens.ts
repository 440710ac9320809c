const TAB = 0x09;
const LINE_FEED = 0x0a;
const RETURN = 0x0d;
const SPACE = 0x20;
const QUOTE = 0x22;
const MINUS = 0x2d;
const POINT = 0x2e;
const ZERO = 0x30;
const NINE = 0x39;
const BACKSLASH = 0x5c;

const word = /true|false|null/y;
const fraction = /(?:\.\d+)?(?:[eE][+-]?\d+)?/y;
const escape = /\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})/y;

// The tokens of JSON (RFC 8259). Each function returns the end of the token that begins at a place, or -1 - n for the place n
// of an error. They read character by character: tokens are short, and a regular expression would exhaust the stack in a
// string of megabytes.

export function skipSpace(text: string, at: number): number {
  let end = at;
  for (let code = text.charCodeAt(end); code === SPACE || code === LINE_FEED || code === RETURN || code === TAB;) {
    code = text.charCodeAt(++end);
  }
  return end;
}

/** `at` is the place of the first quote. */
export function endOfString(text: string, at: number): number {
  let end = at + 1;
  while (end < text.length) {
    const code = text.charCodeAt(end);
    if (code === QUOTE) {
      return end + 1;
    }
    if (code === BACKSLASH) {
      const next = match(escape, text, end);
      if (next === end) {
        return -1 - end;
      }
      end = next;
    } else if (code < SPACE) {
      return -1 - end;
    } else {
      end++;
    }
  }
  return -1 - end;
}

export function endOfNumber(text: string, at: number): number {
  const first = text.charCodeAt(at) === MINUS ? at + 1 : at;
  let end = first;
  for (let code = text.charCodeAt(end); code >= ZERO && code <= NINE;) {
    code = text.charCodeAt(++end);
  }
  if (end === first) {
    return -1 - at;
  }
  if (text.charCodeAt(first) === ZERO) {
    // A number that begins with 0 has no further digit before its fraction.
    end = first + 1;
  }
  const code = text.charCodeAt(end);
  return code === POINT || code === 0x65 /* e */ || code === 0x45 /* E */ ? match(fraction, text, end) : end;
}

export function endOfWord(text: string, at: number): number {
  const end = match(word, text, at);
  return end === at ? -1 - at : end;
}

/** The end of a pattern's match at a place; the place itself if there is none. */
function match(pattern: RegExp, text: string, at: number): number {
  pattern.lastIndex = at;
  return pattern.test(text) ? pattern.lastIndex : at;
}
