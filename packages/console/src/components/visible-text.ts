/** Text with its control and format characters escaped, which could otherwise hide what it says, or change how what follows is shown. */
export function visibleText(text: string): string {
  return text.replaceAll(
    /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu,
    (character) => String.raw`\u{${character.codePointAt(0)?.toString(16)}}`,
  );
}
