import { lstat } from "node:fs/promises";
import { join } from "node:path";
import { Document } from "yaml";
import { CliFailure } from "../failure.ts";
import { formatYaml } from "../yaml.ts";
import { type FileValue, readIfExists } from "./read-file.ts";
import { parseSource } from "./source.ts";
import { removeFile, writeTextFile } from "./write-file.ts";

/** A module that flows need, as the API has it. */
export type FileModule = { readonly name: string; readonly version: string; readonly integrity?: string | undefined };

/** The file in a folder of flows that has their modules. */
export const modulesName = "modules";

const comment = `# Written by "flowgate export": the modules that these flows need. "flowgate sync" installs them with the flows.
`;

/** Reads the modules of a folder, which are not validated; undefined if it has none. Throws a FlowFilesFailure. */
export async function readModulesFile(folder: string): Promise<FileValue | undefined> {
  const path = join(folder, modulesName);
  const bytes = (await isFile(path)) ? await readIfExists(path) : undefined;
  if (bytes === undefined) {
    return undefined;
  }
  const source = parseSource(path, bytes);
  return { value: source.value ?? [], source, path: [] };
}

/** Writes the modules of a folder, or removes the file if there are none. Returns whether it has changed. Throws a CliFailure. */
export async function writeModulesFile(
  folder: string,
  modules: readonly FileModule[],
): Promise<"written" | "removed" | undefined> {
  const path = join(folder, modulesName);
  const existing = await lstat(path).catch(() => undefined);
  if (existing !== undefined && !(await isOwn(path))) {
    if (modules.length === 0) {
      return undefined;
    }
    throw new CliFailure(`${path}: was not written by an export: move or remove it`);
  }
  if (modules.length > 0) {
    return (await writeTextFile(path, formatModules(modules))) ? "written" : undefined;
  }
  if (existing === undefined) {
    return undefined;
  }
  await removeFile(path);
  return "removed";
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

async function isFile(path: string): Promise<boolean> {
  return (await lstat(path).catch(() => undefined))?.isFile() === true;
}
