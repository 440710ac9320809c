import { readFile } from "node:fs/promises";
import {
  type Alias,
  type Document,
  type ErrorCode,
  LineCounter,
  type Node,
  isAlias,
  isMap,
  isNode,
  isScalar,
  isSeq,
  parseDocument,
  visit,
} from "yaml";
import { CliFailure } from "./failure.ts";

export type ConfigFile = {
  readonly path: string;
  /** The parsed content, not validated. */
  readonly content: Readonly<Record<string, unknown>>;
  /** The line of a key, or of its nearest ancestor in the file. */
  lineOf(path: readonly (string | number)[]): number;
};

/**
 * Reads a YAML file. Throws a CliFailure with the line of each syntax error or duplicate key. `origin` is the flag or
 * variable that names the file.
 */
export async function readConfigFile(path: string, origin: string): Promise<ConfigFile> {
  const lines = new LineCounter();
  // Pretty errors would contain the lines around an error, which may have secrets.
  const document = parseDocument(await readText(path, origin), {
    lineCounter: lines,
    prettyErrors: false,
    stringKeys: true,
  });
  const lineAt = (offset: number): number => Math.max(1, lines.linePos(offset).line);

  const errors = [
    ...[...document.errors, ...document.warnings].map(({ pos, code }) => ({ at: pos[0], code })),
    ...unresolvedAliases(document).map((alias) => ({ at: start(alias), code: "BAD_ALIAS" as const })),
  ];
  if (errors.length > 0) {
    throw new CliFailure(
      errors.map(({ at, code }) => `${path}:${lineAt(at)}: ${messages[code] ?? "this is not valid YAML"}`).join("\n"),
    );
  }
  if (document.contents !== null && !isMap(document.contents) && !isEmpty(document.contents)) {
    throw new CliFailure(`${path}:${lineAt(document.contents.range?.[0] ?? 0)}: must be keys and values`);
  }
  return {
    path,
    content: readContent(document, path),
    lineOf: (keys) => lineAt(offsetOf(document, keys)),
  };
}

async function readText(path: string, origin: string): Promise<string> {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(await readFile(path));
  } catch (error) {
    if (error instanceof TypeError) {
      throw new CliFailure(`${path}: is not UTF-8`);
    }
    if (error instanceof Error && "code" in error) {
      throw new CliFailure(`${origin}: ${describeReadError(String(error.code), path, origin)}`);
    }
    throw error;
  }
}

function describeReadError(code: string, path: string, origin: string): string {
  switch (code) {
    case "ENOENT":
      return `there is no file ${path}: correct its path, or omit ${origin} to start with the defaults`;
    case "EISDIR":
      return `${path} is a directory: specify a file`;
    case "EACCES":
      return `this user may not read ${path}: change its permissions, or start Flowgate as another user`;
    default:
      return `${path} cannot be read (${code})`;
  }
}

function readContent(document: Document.Parsed, path: string): Record<string, unknown> {
  try {
    return (document.toJS() as Record<string, unknown> | null) ?? {};
  } catch (error) {
    // The parser limits the expansion of aliases.
    if (error instanceof ReferenceError) {
      throw new CliFailure(`${path}: its aliases expand to too many values`);
    }
    throw error;
  }
}

/** Replaces the parser's messages, which may contain a part of the file, and thus a secret. */
const messages: Partial<Record<ErrorCode, string>> = {
  BAD_ALIAS: "an alias without an anchor; text that begins with * needs quotes",
  BAD_DQ_ESCAPE: "an unknown escape in double quotes; in single quotes, a backslash is literal",
  BAD_INDENT: "the indentation does not match the lines above",
  BAD_SCALAR_START: "text that begins with this character needs quotes",
  BLOCK_AS_IMPLICIT_KEY: "keys and values must be on lines of their own; text with a colon needs quotes",
  DUPLICATE_KEY: "this key occurs twice",
  MISSING_CHAR: "a quote, a bracket or a comma is missing",
  NON_STRING_KEY: "keys must be text",
  MULTIPLE_DOCS: "the file must have only one document",
  TAB_AS_INDENT: "indent with spaces, not with tabs",
  TAG_RESOLVE_FAILED: "tags are not supported; text that begins with ! needs quotes",
};

/** Aliases without an anchor, which the parser itself reports only when it converts to values. */
function unresolvedAliases(document: Document.Parsed): Alias[] {
  const unresolved: Alias[] = [];
  visit(document, {
    Alias(_key, alias) {
      if (alias.resolve(document) === undefined) {
        unresolved.push(alias);
      }
    },
  });
  return unresolved;
}

function isEmpty(node: unknown): boolean {
  return isScalar(node) && node.value === null;
}

/** The offset of a key, or of its nearest ancestor in the file. */
function offsetOf(document: Document.Parsed, path: readonly (string | number)[]): number {
  let node: unknown = document.contents;
  let offset = isNode(node) ? start(node) : 0;
  for (const step of path) {
    const parent: unknown = isAlias(node) ? node.resolve(document) : node;
    if (isMap(parent)) {
      const pair = parent.items.find(({ key }) => isScalar(key) && String(key.value) === String(step));
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
