import { lstat } from "node:fs/promises";
import { join } from "node:path";
import { extname } from "node:path/posix";
import { type FlowNode, containerIdOf, nameOf } from "@flowgate/flows";
import { diffOrder } from "@flowgate/flows/compare";
import { CliFailure } from "../failure.ts";
import { formatIndex, indexName, readIndex, sortAsEditor } from "./folder-index.ts";
import { type FileModule, modulesName, planModulesFile } from "./modules-file.ts";
import { collectProblems } from "./read-file.ts";
import { listFlowFiles, readFolderFile, subfolders } from "./read-files.ts";
import { type FileProblem, FlowFilesFailure } from "./source.ts";
import { type FileFormat, formatNodes, formatOf, removeFile, stageFiles } from "./write-file.ts";

/** The names of the files of a folder that an export has changed, relative to it. */
type FolderExport = { readonly written: readonly string[]; readonly removed: readonly string[] };

/**
 * Writes nodes to a folder, without credentials: a file for each tab and subflow, one for the other nodes, an index with their order,
 * which includes how the nodes of different tabs are interleaved, because it is a part of a revision, and a file with the modules that
 * they need. Files of an earlier export are removed if their tab or subflow is. Without a format, that of the folder is kept, or is YAML.
 * Modules that are undefined are not known: their file is left as it is.
 *
 * Throws a CliFailure, before anything is written, if the folder has other files of flows at the places of the export, or would be
 * left by symbolic links.
 */
export async function exportFolder(
  folder: string,
  flows: readonly FlowNode[],
  {
    format,
    modules,
  }: { readonly format?: FileFormat | undefined; readonly modules?: readonly FileModule[] | undefined } = {},
): Promise<FolderExport> {
  await assertContained(folder);
  const index = await readIndex(folder);
  const listed = new Set(index?.files);
  const existing = await readExisting(folder);
  const [firstFile] = listed;
  const files = planFiles(flows, existing, format ?? (firstFile === undefined ? "yaml" : formatOf(firstFile)));
  assertOwn(folder, files, existing, listed);
  const modulesChange = await planModulesFile(join(folder, modulesName), modules);
  const names = new Set(files.map(({ name }) => name));
  const texts = [
    ...files.map(({ name, nodes }) => ({ name, text: formatNodes(nodes, formatOf(name)) })),
    ...(modulesChange?.text === undefined ? [] : [{ name: modulesName, text: modulesChange.text }]),
  ];
  const newIndex = { name: indexName, text: formatIndex({ files: [...names], moved: findMoves(flows, files) }) };
  await using staged = await stageFiles(
    [...texts, newIndex].map(({ name, text }) => ({ path: join(folder, name), text })),
  );

  const written: string[] = [];
  const place = async (name: string): Promise<void> => {
    if (await staged.place(join(folder, name))) {
      written.push(name);
    }
  };
  for (const { name } of texts) {
    await place(name);
  }
  const removed = [...existing.keys()].filter((name) => !names.has(name));
  if (modulesChange !== undefined && modulesChange.text === undefined) {
    removed.push(modulesName);
  }
  for (const name of removed) {
    await removeFile(join(folder, name));
  }
  // Last: if the export is interrupted, the next one recognizes the files of this one by their content.
  await place(indexName);
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

/** A file that an export writes. */
type PlannedFile = { readonly name: string; readonly nodes: readonly FlowNode[] };

/** The ids of the nodes in the files that are in the folder already, by file name. */
type ExistingFiles = ReadonlyMap<string, ReadonlySet<string>>;

/**
 * Distributes nodes to files: one for each tab and each subflow, in their order, and `global` for all other nodes. A tab or
 * subflow stays in the file that contains it already; a new one gets a name made from its label, which no other file has.
 */
function planFiles(flows: readonly FlowNode[], existing: ExistingFiles, format: FileFormat): PlannedFile[] {
  const containers = [...flows.filter(({ type }) => type === "tab"), ...flows.filter(({ type }) => type === "subflow")];
  const ids = new Set(containers.map(({ id }) => id));
  const contents = Map.groupBy(flows, (node) => {
    const id = containerIdOf(node);
    return ids.has(id) ? id : undefined;
  });
  const stemOf = createStems(containers, existing);
  const global = contents.get(undefined);
  return [
    ...containers.map((container) => ({
      name: `${stemOf(container)}.${format}`,
      nodes: contents.get(container.id) as FlowNode[],
    })),
    ...(global === undefined ? [] : [{ name: `global.${format}`, nodes: global }]),
  ];
}

/** Chooses the names of the files without extensions: first those of files that exist. */
function createStems(containers: readonly FlowNode[], existing: ExistingFiles): (container: FlowNode) => string {
  const kept = new Map<string, string>();
  for (const [name, ids] of existing) {
    const container = containers.find(
      (each) => name.startsWith(`${folderOf(each)}/`) && ids.has(each.id) && !kept.has(each.id),
    );
    if (container !== undefined) {
      kept.set(container.id, name.slice(0, -extname(name).length));
    }
  }
  // File systems may ignore the case of letters, and the normalization of Unicode.
  const toKey = (stem: string): string => stem.normalize("NFC").toLowerCase();
  const taken = new Set([...existing.keys()].map((name) => toKey(name.slice(0, -extname(name).length))));
  return (container) => {
    const stem = kept.get(container.id) ?? newStem(container);
    taken.add(toKey(stem));
    return stem;
  };

  function newStem(container: FlowNode): string {
    const base = `${folderOf(container)}/${toFileStem(nameOf(container) ?? "", container.type)}`;
    let stem = base;
    for (let number = 2; taken.has(toKey(stem)); number++) {
      stem = `${base}-${number}`;
    }
    return stem;
  }
}

function folderOf({ type }: FlowNode): string {
  return type === "tab" ? "tabs" : "subflows";
}

/** Names that Windows reserves for devices. */
const reserved = /^(?:con|prn|aux|nul|com\d|lpt\d)$/;

/**
 * Makes a file name without extension from a label: letters, digits and hyphens in lower case, at most 50, without accents. `fallback` is the
 * name for a label that has no letters and digits.
 */
function toFileStem(label: string, fallback: string): string {
  const words = label
    .toWellFormed()
    .normalize("NFKD")
    .replaceAll(/[\u0300-\u036f]/g, "")
    .normalize("NFC")
    .toLowerCase()
    .match(/[\p{L}\p{N}\p{M}]+/gu);
  const [stem = ""] = /^.{0,50}(?<!-)/u.exec((words ?? []).join("-")) ?? [];
  return stem === "" || reserved.test(stem) ? [stem, fallback].filter((part) => part !== "").join("-") : stem;
}
