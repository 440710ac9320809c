/** Escapes the control and format characters of text, which could hide parts of it or reorder the text around it. */
export function visibleText(text: string): string {
  return text.replaceAll(
    /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu,
    (character) => String.raw`\u{${character.codePointAt(0)?.toString(16)}}`,
  );
}
