import { readdir, stat } from "node:fs/promises";
import { join } from "node:path";
import { hasCode } from "@flowgate/base/error-code";
import type { FlowNode } from "@flowgate/flows";
import { CliFailure } from "../failure.ts";
import { applyMoves, indexName, readIndex, sortAsEditor } from "./folder-index.ts";
import {
  collectProblems,
  explainReadError,
  readBounded,
  type FileValue,
  type FlowFiles,
  readContent,
  readFlowFile,
} from "./read-file.ts";
import { modulesName, modulesPathOf, readModulesFile } from "./modules-file.ts";
import { failureAt, parseSource } from "./source.ts";

/** The path that stands for stdin. */
const stdinPath = "-";

/**
 * Reads files and folders as one configuration, in their order. Throws a FlowFilesFailure with the problems of all of them, and
 * a CliFailure if one can't be read. `readStdin` is called for the path "-".
 */
export async function readFlowFiles(
  paths: readonly string[],
  readStdin: () => Promise<Uint8Array> = () => readBounded("<stdin>", process.stdin),
): Promise<FlowFiles> {
  const contents = await collectProblems(paths, async (path) => {
    if (path === stdinPath) {
      return readContent(parseSource("<stdin>", await readStdin()));
    }
    return (await isFolder(path)) ? readFolder(path) : readFile(path);
  });
  const only = (name: "rev" | "credentials" | "modules") =>
    onlyOne(
      name,
      contents.map((content) => content[name]),
    );
  return {
    nodes: contents.flatMap(({ nodes }) => nodes),
    rev: only("rev"),
    credentials: only("credentials"),
    modules: only("modules"),
  };
}

function onlyOne(name: string, found: readonly (FileValue | undefined)[]): FileValue | undefined {
  const [first, second] = found.filter((value) => value !== undefined);
  if (first !== undefined && second !== undefined) {
    const message = `${name}: only one file may have it, and ${first.source.file} has it too`;
    throw failureAt(second.source, second.path, message);
  }
  return first;
}

async function isFolder(path: string): Promise<boolean> {
  try {
    return (await stat(path)).isDirectory();
  } catch (error) {
    throw explainReadError(error, path);
  }
}

/** Reads a file, and the modules that are beside it. */
async function readFile(path: string): Promise<FlowFiles> {
  const [content, modules] = [await readFlowFile(path), await readModulesFile(modulesPathOf(path))];
  return { ...content, modules: onlyOne("modules", [content.modules, modules]) };
}

/**
 * Reads a folder as `exportFolder` writes it, or any folder of files that each contain an array of nodes. Files that the index
 * does not name come after those that it names.
 */
async function readFolder(folder: string): Promise<FlowFiles> {
  const index = await readIndex(folder);
  const names = await listFlowFiles(folder, index !== undefined);
  if (index === undefined && names.length === 0) {
    throw new CliFailure(
      `${folder}: has no files of flows (.yaml, .yml or .json): correct the path, or export flows to it`,
    );
  }
  const ranks = new Map(index?.files.map((name, rank) => [name, rank]));
  const sorted = names.toSorted((a, b) => (ranks.get(a) ?? ranks.size) - (ranks.get(b) ?? ranks.size));
  const contents = await collectProblems(sorted, async (name) => {
    const content = await readFolderFile(folder, name);
    const other = content.rev ?? content.credentials ?? content.modules;
    if (other !== undefined) {
      const message = "only the nodes of a file in a folder are read: keep only the array of nodes";
      throw failureAt(other.source, other.path, message);
    }
    return content.nodes;
  });
  const nodes = sortAsEditor(contents.flat(), nodeOf);
  return {
    nodes: applyMoves(nodes, (item) => nodeOf(item)?.id, index?.moved ?? new Map()),
    rev: undefined,
    credentials: undefined,
    modules: await readModulesFile(join(folder, modulesName)),
  };
}

function nodeOf({ value }: FileValue): FlowNode | undefined {
  const { id, type } = Object(value) as Partial<FlowNode>;
  return typeof id === "string" && typeof type === "string" ? (value as FlowNode) : undefined;
}

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
    if (hasCode(error, "ENOENT", "ENOTDIR")) {
      return [];
    }
    throw explainReadError(error, folder);
  }
}

/** Reads a file of a folder. Throws a CliFailure for devices and pipes, of which reading may never end. */
export async function readFolderFile(folder: string, name: string): Promise<FlowFiles> {
  const path = join(folder, name);
  const stats = await stat(path).catch((error: unknown) => {
    throw explainReadError(error, path);
  });
  if (!stats.isFile() && !stats.isDirectory()) {
    throw new CliFailure(`${path}: is not a regular file: remove it`);
  }
  return readFlowFile(path);
}
