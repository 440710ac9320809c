import { type Document, Scalar, visit } from "yaml";
import { printableData } from "../printable.ts";

/**
 * Formats a document so that `parseYaml`, and other parsers, read the same values. Text of several lines is written as it is if
 * possible.
 */
export function formatYaml(document: Document): string {
  visit(document, {
    Scalar(key, scalar) {
      if (typeof scalar.value !== "string") {
        return;
      }
      const style = styleOf(scalar.value, key === "key");
      if (style !== undefined) {
        scalar.type = style;
      }
    },
  });
  // Double-quoted text is JSON, because the library loses spaces where it breaks such text into lines.
  const text = document.toString({
    lineWidth: 0,
    blockQuote: "literal",
    flowCollectionPadding: false,
    doubleQuotedAsJSON: true,
  });
  return printableData(text);
}

/** Characters that a YAML file can't contain, that it would change, or that an editor or a terminal may not show. */
const needsEscape = /[^\t\n\x20-\x7e\xa0-\u{10ffff}]|[\u2028\u2029\ufeff\ufffe\uffff\p{Cs}\p{Bidi_Control}]/u;

/** What YAML 1.1 reads as a boolean, a date, or a number such as 1_000 or 1:30. Other tools may read the files so. */
const legacyValue = /^(?:[yn]|yes|no|on|off|[-+]?\d[\d_:.xobtz+ -]*)$/i;

/** A first line of spaces only, of which the library loses some in a block. */
const startsWithSpaces = /^\n*[ \t]+(?:\n|$)/;

/** Undefined: the library chooses between plain and quoted text. */
function styleOf(text: string, isKey: boolean): Scalar.Type | undefined {
  if (needsEscape.test(text) || /^(?:\.\.\.|---)/.test(text) || (!isKey && legacyValue.test(text))) {
    return Scalar.QUOTE_DOUBLE;
  }
  if (!text.includes("\n")) {
    return undefined;
  }
  return isKey || startsWithSpaces.test(text) ? Scalar.QUOTE_DOUBLE : Scalar.BLOCK_LITERAL;
}
