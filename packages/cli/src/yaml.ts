import {
  type CollectionTag,
  type Document,
  type ErrorCode,
  isAlias,
  isMap,
  isNode,
  isScalar,
  isSeq,
  LineCounter,
  type Node,
  parseDocument,
  Scalar,
  type ScalarTag,
  visit,
} from "yaml";
import { printableData } from "./printable.ts";

/** Both begin with 1. */
export type Position = { readonly line: number; readonly column: number };

/** A problem at a position in a text. */
export type Problem = Position & { readonly message: string };

export type YamlDocument = {
  readonly contents: Document.Parsed["contents"];
  /** Syntax errors and duplicate keys. They contain nothing of the text. */
  readonly problems: readonly Problem[];
  /** Throws a ReferenceError if the aliases expand to too many values. */
  readonly toValue: () => unknown;
  /** The position of a key or an element, or of its nearest ancestor in the text. Of duplicate keys, that of the last one. */
  positionOf(path: readonly (string | number)[]): Position;
};

/** Parses YAML 1.2, and JSON, which is a part of it. */
export function parseYaml(text: string): YamlDocument {
  const lines = new LineCounter();
  // Pretty errors would contain the lines around an error, which may have secrets.
  const document = parseDocument(text, { lineCounter: lines, prettyErrors: false, stringKeys: true });
  const positionAt = (offset: number): Position => {
    const { line, col } = lines.linePos(offset);
    return { line: Math.max(1, line), column: Math.max(1, col) };
  };
  const errors = [
    ...[...document.errors, ...document.warnings].map(({ pos, code }) => ({
      at: pos[0],
      message: messages[code] ?? invalid,
    })),
    ...findValueErrors(document),
  ];
  return {
    contents: document.contents,
    problems: errors
      // What follows the first such error is mostly a consequence of it.
      .filter(
        ({ message }, index) => message !== invalid || index === errors.findIndex((each) => each.message === invalid),
      )
      .map(({ at, message }) => ({ ...positionAt(at), message })),
    toValue: () => document.toJS() as unknown,
    positionOf: (path) => positionAt(offsetOf(document, path)),
  };
}

const invalid = "this is not valid YAML";

/** Replaces the parser's messages, which may contain a part of the file, and thus a secret. */
const messages: Partial<Record<ErrorCode, string>> & { readonly BAD_ALIAS: string } = {
  BAD_ALIAS: "an alias without an anchor; text that begins with * needs quotes",
  BAD_DQ_ESCAPE: "an unknown escape in double quotes; in single quotes, a backslash is literal",
  BAD_INDENT: "the indentation does not match the lines above",
  BAD_SCALAR_START: "text that begins with this character needs quotes",
  BLOCK_AS_IMPLICIT_KEY: "keys and values must be on lines of their own; text with a colon needs quotes",
  DUPLICATE_KEY: "duplicate key",
  MISSING_CHAR: "a quote, a bracket or a comma is missing",
  NON_STRING_KEY: "keys must be text",
  MULTIPLE_DOCS: "the file must have only one document",
  TAB_AS_INDENT: "indent with spaces, not with tabs",
  TAG_RESOLVE_FAILED: "tags are not supported; text that begins with ! needs quotes",
};

type LocatedMessage = { readonly at: number; readonly message: string };

/** Problems that the parser reports only when it converts to values, or not at all. */
function findValueErrors(document: Document.Parsed): LocatedMessage[] {
  const found: LocatedMessage[] = [];
  const anchors = new Set<string | undefined>();
  visit(document, {
    Alias(_key, alias) {
      // Resolving each alias would take a time that grows with the square of their number.
      if (!anchors.has(alias.source)) {
        found.push({ at: start(alias), message: messages.BAD_ALIAS });
      }
    },
    Collection(_key, { anchor }) {
      anchors.add(anchor);
    },
    Scalar(_key, scalar) {
      anchors.add(scalar.anchor);
      if (isRounded(scalar)) {
        found.push({ at: start(scalar), message: "must be an integer that a double can represent, or a string" });
      }
    },
  });
  return found;
}

/** True if the integer in the text is neither the exact value of the parsed double nor its shortest decimal form. */
function isRounded({ value, source = "" }: Scalar): boolean {
  if (!Number.isInteger(value) || Number.isSafeInteger(value) || !/^[-+]?\d+$/.test(source)) {
    return false;
  }
  const digits = source.replace("+", "");
  return digits !== String(value) && BigInt(digits) !== BigInt(value as number);
}

/** The offset of a key, or of its nearest ancestor in the file. */
function offsetOf(document: Document.Parsed, path: readonly (string | number)[]): number {
  let node: unknown = document.contents;
  let offset = isNode(node) ? start(node) : 0;
  for (const step of path) {
    const parent: unknown = isAlias(node) ? node.resolve(document) : node;
    if (isMap(parent)) {
      const pair = parent.items.findLast(({ key }) => isScalar(key) && String(key.value) === String(step));
      if (pair === undefined) {
        break;
      }
      offset = isNode(pair.key) ? start(pair.key) : offset;
      node = pair.value;
    } else if (isSeq(parent) && typeof step === "number") {
      node = parent.items[step];
      offset = isNode(node) ? start(node) : offset;
    } else {
      break;
    }
  }
  return offset;
}

function start(node: Node): number {
  return node.range?.[0] ?? 0;
}

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
  document.schema.tags = document.schema.tags.map(withEscapes);
  // Double-quoted text is JSON, because the library loses spaces where it breaks such text into lines.
  const text = document.toString({
    lineWidth: 0,
    blockQuote: "literal",
    flowCollectionPadding: false,
    doubleQuotedAsJSON: true,
  });
  // Comments are not escaped yet.
  return printableData(text);
}

/**
 * Escapes text before the library measures keys: one of more than 1,024 characters needs a question mark, without which it can't
 * be read.
 */
function withEscapes(tag: CollectionTag | ScalarTag): CollectionTag | ScalarTag {
  if (tag.collection !== undefined || tag.stringify === undefined) {
    return tag;
  }
  const { stringify } = tag;
  return { ...tag, stringify: (...call) => printableData(stringify(...call)) };
}

/** Characters that a YAML file can't contain, that it would change, or that an editor or a terminal may not show. */
const needsEscape = /[^\t\n\x20-\x7e\xa0-\u{10ffff}]|[\u2028\u2029\ufeff\ufffe\uffff\p{Cs}\p{Bidi_Control}]/u;

/** Scalars that YAML 1.1 reads as a boolean, a date, or a number such as 1_000 or 1:30. Other tools may read the files so. */
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
