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
  /** What it says, unchecked. */
  readonly content: Readonly<Record<string, unknown>>;
  /** The line of this key, or of the nearest one above it that is there. */
  lineOf(path: readonly (string | number)[]): number;
};

/**
 * Reads YAML. Throws a CliFailure with the line of each fault of syntax, and of each repeated key. `origin` is the flag or
 * variable that names the file.
 */
export async function readConfigFile(path: string, origin: string): Promise<ConfigFile> {
  const lines = new LineCounter();
  // Pretty errors would show the lines around a fault, secrets and all.
  const document = parseDocument(await readText(path, origin), {
    lineCounter: lines,
    prettyErrors: false,
    stringKeys: true,
  });
  const lineAt = (offset: number): number => Math.max(1, lines.linePos(offset).line);

  const found = [
    ...[...document.errors, ...document.warnings].map(({ pos, code }) => ({ at: pos[0], code })),
    ...lostAliases(document).map((alias) => ({ at: start(alias), code: "BAD_ALIAS" as const })),
  ];
  if (found.length > 0) {
    throw new CliFailure(
      found.map(({ at, code }) => `${path}:${lineAt(at)}: ${faults[code] ?? "this is not YAML"}`).join("\n"),
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
      return `there is no file ${path}: correct its path, or leave ${origin} out to start with the defaults`;
    case "EISDIR":
      return `${path} is a directory: name a file`;
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
    // Thrown where aliases unfold without measure.
    if (error instanceof ReferenceError) {
      throw new CliFailure(`${path}: its aliases unfold to too much`);
    }
    throw error;
  }
}

/** In words of our own: the parser's may hold a piece of the file, and that may be a secret. */
const faults: Partial<Record<ErrorCode, string>> = {
  BAD_ALIAS: "an alias that names no anchor; text that begins with * needs quotes",
  BAD_DQ_ESCAPE: "an unknown escape in double quotes; single quotes take a backslash as it is",
  BAD_INDENT: "the indentation does not fit the lines above",
  BAD_SCALAR_START: "text that begins with this character needs quotes",
  BLOCK_AS_IMPLICIT_KEY: "keys and values must be on lines of their own; text with a colon needs quotes",
  DUPLICATE_KEY: "this key is there twice",
  MISSING_CHAR: "a quote, a bracket or a comma is missing",
  NON_STRING_KEY: "keys must be text",
  MULTIPLE_DOCS: "there must be one document only",
  TAB_AS_INDENT: "indent with spaces, not with tabs",
  TAG_RESOLVE_FAILED: "tags are not understood; text that begins with ! needs quotes",
};

/** Aliases that name no anchor: the parser itself finds them only when it gives out values. */
function lostAliases(document: Document.Parsed): Alias[] {
  const lost: Alias[] = [];
  visit(document, {
    Alias(_key, alias) {
      if (alias.resolve(document) === undefined) {
        lost.push(alias);
      }
    },
  });
  return lost;
}

function isEmpty(node: unknown): boolean {
  return isScalar(node) && node.value === null;
}

/** Where this key begins, or the deepest one above it that is there. */
function offsetOf(document: Document.Parsed, path: readonly (string | number)[]): number {
  let node: unknown = document.contents;
  let offset = isNode(node) ? start(node) : 0;
  for (const step of path) {
    const holder: unknown = isAlias(node) ? node.resolve(document) : node;
    if (isMap(holder)) {
      const pair = holder.items.find(({ key }) => isScalar(key) && String(key.value) === String(step));
      if (pair === undefined) {
        break;
      }
      offset = isNode(pair.key) ? start(pair.key) : offset;
      node = pair.value;
    } else if (isSeq(holder) && typeof step === "number") {
      node = holder.items[step];
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
