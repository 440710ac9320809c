/**
 * Text of a server or a file as one line that is safe to print: control characters, with which it could change the
 * terminal or hide other text, become escapes such as `\x1b`, as do marks that change the direction of text.
 */
export function printable(text: string): string {
  return text.replaceAll(/[\p{Cc}\u2028\u2029\p{Bidi_Control}]/gu, escape);
}

/** The same for text of several lines, some of it in a style. */
export function printableLines(text: string): string {
  return text.replaceAll(styledText, (found) => (found.length > 1 ? found : escape(found)));
}

/**
 * JSON, or YAML whose text with such characters is in double quotes, with escapes instead of them, as which it has the same value.
 * Line breaks and tabs are kept.
 */
export function printableData(text: string): string {
  return text.replaceAll(
    /[^\P{Cc}\n\t]|[\u2028\u2029\p{Bidi_Control}]/gu,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}

/** A style that commands use (bold, red, green, yellow, cyan), and its end, or a character that is not safe. */
const styledText = new RegExp(String.raw`\x1b\[(?:1|22|3[12369])m|[^\P{Cc}\n]|[\u2028\u2029\p{Bidi_Control}]`, "gu");

function escape(character: string): string {
  const code = character.charCodeAt(0);
  return code < 0x100 ? `\\x${code.toString(16).padStart(2, "0")}` : `\\u${code.toString(16)}`;
}
