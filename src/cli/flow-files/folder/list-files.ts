import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { explainReadError } from "../read-file.ts";
import { indexName } from "./index-file.ts";

/** The folders of a folder of flows, and what they contain. */
export const subfolders = ["tabs", "subflows"] as const;

/**
 * Lists the files of flows in a folder: `tabs/*`, `subflows/*` and `global.*`; without an index all files at the top too. Their
 * names are relative and sorted, with `/` on all systems. Hidden files are ignored.
 */
export async function listFlowFiles(folder: string, isIndexed: boolean): Promise<string[]> {
  const top = (await list(folder)).filter(
    (name) => name !== indexName && (!isIndexed || /^global\.[a-z]+$/i.test(name)),
  );
  const contained = await Promise.all(
    subfolders.map(async (name) => (await list(join(folder, name))).map((file) => `${name}/${file}`)),
  );
  return [...top, ...contained.flat()].toSorted();
}

async function list(folder: string): Promise<string[]> {
  try {
    const entries = await readdir(folder, { withFileTypes: true });
    return entries
      .filter((entry) => !entry.isDirectory() && /^[^.].*\.(?:ya?ml|json)$/i.test(entry.name))
      .map(({ name }) => name);
  } catch (error) {
    if (error instanceof Error && "code" in error && (error.code === "ENOENT" || error.code === "ENOTDIR")) {
      return [];
    }
    throw explainReadError(error, folder);
  }
}
