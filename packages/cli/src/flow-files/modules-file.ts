import type { Stats } from "node:fs";
import { lstat } from "node:fs/promises";
import { Document } from "yaml";
import { hasCode } from "@flowgate/base/error-code";
import { CliFailure } from "../failure.ts";
import { formatYaml } from "../yaml.ts";
import { type FileValue, explainReadError, readBytes, readIfExists } from "./read-file.ts";
import { parseSource } from "./source.ts";

/** A module that flows need, as the API has it. */
export type FileModule = { readonly name: string; readonly version: string; readonly integrity?: string | undefined };

/** The file in a folder of flows that has their modules. */
export const modulesName = "modules";

/** The file beside a file of flows that has their modules. A folder of flows does not read it as flows. */
export function modulesPathOf(path: string): string {
  return `${path}.${modulesName}`;
}

const comment = `# Written by "flowgate export": the modules that these flows need. They are installed when these are deployed.
`;

/**
 * Reads a file of modules, which are not validated; undefined if there is none. Throws a FlowFilesFailure, and a CliFailure if there is
 * something else at its place.
 */
export async function readModulesFile(path: string): Promise<FileValue | undefined> {
  const found = await lstatIfExists(path);
  if (found === undefined) {
    return undefined;
  }
  if (!found.isFile()) {
    const kind = found.isDirectory()
      ? "a folder"
      : found.isSymbolicLink()
        ? "a symbolic link"
        : "a device, pipe or socket";
    throw new CliFailure(
      `${path}: is ${kind}, but a file with the modules of the flows is expected here: move it, or replace it by a file`,
    );
  }
  const source = parseSource(path, await readBytes(path));
  return { value: source.value ?? [], source, path: [] };
}

/** How an export changes the file of modules: its new content, or its removal. Undefined if it remains as it is. */
type ModulesChange =
  | { readonly path: string; readonly text: string }
  | { readonly path: string; readonly text: undefined };

/** Finds out what an export does with a file of modules. Throws a CliFailure if someone else has written the file. */
export async function planModulesFile(
  path: string,
  modules: readonly FileModule[] | undefined,
): Promise<ModulesChange | undefined> {
  if (modules === undefined) {
    return undefined;
  }
  const existing = await lstat(path).catch(() => undefined);
  if (existing !== undefined && !(await isOwn(path))) {
    if (modules.length === 0) {
      return undefined;
    }
    throw new CliFailure(`${path}: was not written by an export: move or remove it`);
  }
  if (modules.length > 0) {
    return { path, text: formatModules(modules) };
  }
  return existing === undefined ? undefined : { path, text: undefined };
}

function formatModules(modules: readonly FileModule[]): string {
  const sorted = modules.toSorted((one, other) => (one.name < other.name ? -1 : 1));
  const items = sorted.map(({ name, version, integrity }) => ({
    name,
    version,
    ...(integrity !== undefined && { integrity }),
  }));
  return comment + formatYaml(new Document(items));
}

async function isOwn(path: string): Promise<boolean> {
  return (await isFile(path)) && (await readIfExists(path))?.toString("utf8").startsWith(comment) === true;
}

async function lstatIfExists(path: string): Promise<Stats | undefined> {
  try {
    return await lstat(path);
  } catch (error) {
    if (hasCode(error, "ENOENT", "ENOTDIR")) {
      return undefined;
    }
    throw explainReadError(error, path);
  }
}

async function isFile(path: string): Promise<boolean> {
  return (await lstat(path).catch(() => undefined))?.isFile() === true;
}
