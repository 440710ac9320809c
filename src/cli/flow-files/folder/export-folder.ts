import { lstat } from "node:fs/promises";
import { join } from "node:path";
import type { FlowNode } from "../../../flows/configuration.ts";
import { diffOrder } from "../../../flows/diff/order.ts";
import { CliFailure } from "../../failure.ts";
import { formatOf } from "../export-file.ts";
import { type FileProblem, FlowFilesFailure } from "../failure.ts";
import { type FileFormat, formatNodes } from "../format-nodes.ts";
import { collectProblems } from "../read-file.ts";
import { removeFile, writeTextFile } from "../write-file.ts";
import { formatIndex, indexName, readIndex } from "./index-file.ts";
import { listFlowFiles, subfolders } from "./list-files.ts";
import { sortAsEditor } from "./order.ts";
import { readFolderFile } from "./read-folder-file.ts";
import { type PlannedFile, planFiles } from "./plan-files.ts";

/** The names of the files of a folder that an export has changed, relative to it. */
export type FolderExport = { readonly written: readonly string[]; readonly removed: readonly string[] };

/**
 * Writes nodes to a folder, without credentials: a file for each tab and subflow, one for the other nodes, and an index with
 * their order, which includes how the nodes of different tabs are interleaved, because it is a part of a revision. Files of an
 * earlier export are removed if their tab or subflow is. Without a format, that of the folder is kept, or is YAML.
 *
 * Throws a CliFailure, before anything is written, if the folder has other files of flows at the places of the export, or would be
 * left by symbolic links.
 */
export async function exportFolder(
  folder: string,
  flows: readonly FlowNode[],
  format?: FileFormat,
): Promise<FolderExport> {
  await assertContained(folder);
  const index = await readIndex(folder);
  const listed = new Set(index?.files);
  const existing = await readExisting(folder);
  const [firstFile] = listed;
  const files = planFiles(flows, existing, format ?? (firstFile === undefined ? "yaml" : formatOf(firstFile)));
  assertOwn(folder, files, existing, listed);

  const written: string[] = [];
  const write = async (name: string, text: string): Promise<void> => {
    if (await writeTextFile(join(folder, name), text)) {
      written.push(name);
    }
  };
  for (const { name, nodes } of files) {
    await write(name, formatNodes(nodes, formatOf(name)));
  }
  const names = new Set(files.map(({ name }) => name));
  const removed = [...existing.keys()].filter((name) => !names.has(name));
  for (const name of removed) {
    await removeFile(join(folder, name));
  }
  // Written last: if the export is interrupted, the next one recognizes the files of this one by their content.
  await write(indexName, formatIndex({ files: [...names], moved: findMoves(flows, files) }));
  return { written, removed };
}

/** Rejects symbolic links: in a folder from someone else, they could make an export write or remove files outside of it. */
async function assertContained(folder: string): Promise<void> {
  for (const name of subfolders) {
    const path = join(folder, name);
    const stats = await lstat(path).catch(() => undefined);
    if (stats?.isSymbolicLink() === true) {
      throw new CliFailure(`${path}: is a symbolic link, which an export does not follow: replace it by a folder`);
    }
  }
}

async function readExisting(folder: string): Promise<Map<string, Set<string>>> {
  const names = await listFlowFiles(folder, true);
  const contents = await collectProblems(names, async (name) => {
    const { nodes } = await readFolderFile(folder, name);
    return nodes.map(({ value }) => String((Object(value) as { readonly id?: unknown }).id));
  });
  return new Map(names.map((name, index) => [name, new Set(contents[index])]));
}

/** Rejects files that no export has written, unless they contain what is written to them. */
function assertOwn(
  folder: string,
  files: readonly PlannedFile[],
  existing: ReadonlyMap<string, ReadonlySet<string>>,
  listed: ReadonlySet<string>,
): void {
  const isReplaced = (name: string, ids: ReadonlySet<string>): boolean =>
    files.some((file) => stemOf(file.name) === stemOf(name) && file.nodes.some(({ id }) => ids.has(id)));
  const others = [...existing].filter(([name, ids]) => !listed.has(name) && !isReplaced(name, ids));
  if (others.length > 0) {
    throw new FlowFilesFailure(
      others.map(([name]): FileProblem => ({
        file: join(folder, name),
        line: 1,
        column: 1,
        message:
          "was not written by an export, and its nodes belong to no exported file of this name: move or remove it",
      })),
    );
  }
}

function stemOf(name: string): string {
  return name.replace(/\.[^.]+$/, "");
}

/** The nodes that are not where they are read from the files. */
function findMoves(flows: readonly FlowNode[], files: readonly PlannedFile[]): ReadonlyMap<string, string> {
  const sorted = sortAsEditor(
    files.flatMap(({ nodes }) => nodes),
    (node) => node,
  );
  return diffOrder(
    sorted.map(({ id }) => id),
    flows.map(({ id }) => id),
  );
}
