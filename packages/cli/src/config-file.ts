import { isUtf8 } from "node:buffer";
import { readFile } from "node:fs/promises";
import { isMap, isScalar } from "yaml";
import { CliFailure } from "./failure.ts";
import { parseYaml, type YamlDocument } from "./yaml.ts";

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
  const document = parseYaml(await readText(path, origin));
  if (document.problems.length > 0) {
    throw new CliFailure(document.problems.map(({ line, message }) => `${path}:${line}: ${message}`).join("\n"));
  }
  if (document.contents !== null && !isMap(document.contents) && !isEmpty(document.contents)) {
    throw new CliFailure(`${path}:${document.positionOf([]).line}: must be keys and values`);
  }
  return { path, content: readContent(document, path), lineOf: (keys) => document.positionOf(keys).line };
}

async function readText(path: string, origin: string): Promise<string> {
  const bytes = await readFile(path).catch((error: NodeJS.ErrnoException) => {
    throw new CliFailure(`${origin}: ${describeReadError(String(error.code), path, origin)}`);
  });
  if (!isUtf8(bytes)) {
    throw new CliFailure(`${path}: is not UTF-8`);
  }
  return new TextDecoder().decode(bytes);
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

function readContent(document: YamlDocument, path: string): Record<string, unknown> {
  try {
    return (document.toValue() as Record<string, unknown> | null) ?? {};
  } catch (error) {
    // The parser limits the expansion of aliases.
    if (error instanceof ReferenceError) {
      throw new CliFailure(`${path}: its aliases expand to too many values`);
    }
    throw error;
  }
}

function isEmpty(node: unknown): boolean {
  return isScalar(node) && node.value === null;
}
