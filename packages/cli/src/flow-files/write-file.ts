import { randomUUID } from "node:crypto";
import { chmod, realpath, rename, rm, stat, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import type { JsonValue } from "@bufbuild/protobuf";
import { Document, isMap, isSeq } from "yaml";
import { makeDirectory } from "@flowgate/base/directories";
import type { FlowNode } from "@flowgate/flows";
import { CliFailure } from "../failure.ts";
import { printableData } from "../printable.ts";
import { formatYaml } from "../yaml.ts";
import { readIfExists } from "./read-file.ts";

/**
 * Writes all nodes in their order to one file, without credentials. The format is that of its extension unless it is given. `beside` is
 * another file that is written with it.
 */
export async function exportFile(
  path: string,
  flows: readonly FlowNode[],
  { format = formatOf(path), beside }: { readonly format?: FileFormat | undefined; readonly beside?: TextFile } = {},
): Promise<void> {
  // A symbolic link stays one.
  const target = await realpath(path).catch(() => path);
  const file = { path: target, text: formatNodes(flows, format) };
  await using staged = await stageFiles(beside === undefined ? [file] : [file, beside]);
  await staged.place(target);
  if (beside !== undefined) {
    await staged.place(beside.path);
  }
}

/** JSON for `.json`, YAML for all other names. */
export function formatOf(path: string): FileFormat {
  return /\.json$/i.test(path) ? "json" : "yaml";
}

export type FileFormat = "yaml" | "json";

/** Formats nodes as an array, the same text for equal nodes, without credentials. */
export function formatNodes(nodes: readonly FlowNode[], format: FileFormat): string {
  const sorted = nodes.map(sortProperties);
  return format === "json" ? printableData(`${JSON.stringify(sorted, null, 2)}\n`) : toYaml(sorted);
}

const first = ["id", "type", "z", "g", "d", "name", "label", "disabled"];
const last = ["x", "y", "w", "h", "wires"];

/**
 * Sorts the properties of a node, because their order depends on the client that has deployed it. The members of their values
 * stay as they are.
 */
function sortProperties(node: FlowNode): FlowNode {
  const { credentials: _, ...properties } = node;
  const names = Object.keys(properties);
  const isFixed = new Set([...first, ...last]);
  const sorted = [
    ...first.filter((name) => Object.hasOwn(properties, name)),
    ...names.filter((name) => !isFixed.has(name)).toSorted(),
    ...last.filter((name) => Object.hasOwn(properties, name)),
  ];
  return Object.fromEntries(sorted.map((name) => [name, properties[name] as JsonValue])) as FlowNode;
}

function toYaml(nodes: readonly FlowNode[]): string {
  const document = new Document(nodes, { aliasDuplicateObjects: false });
  const items = isSeq(document.contents) ? document.contents.items.filter((item) => isMap(item)) : [];
  for (const [index, item] of items.entries()) {
    item.spaceBefore = index > 0;
    const wires = item.get("wires");
    if (isSeq(wires)) {
      wires.flow = true;
    }
  }
  return formatYaml(document);
}

export type TextFile = { readonly path: string; readonly text: string };

/** Files that are complete on the disk, beside their places. Disposing removes those that were not placed. */
interface StagedFiles extends AsyncDisposable {
  /** Readers see the old content or the new one. Returns false if the file has that content. */
  place(path: string): Promise<boolean>;
}

/** Prepares to write files, and their folders if there are none. Throws a CliFailure if one can't be written: then none has changed. */
export async function stageFiles(files: readonly TextFile[]): Promise<StagedFiles> {
  const temporaries = new Map<string, string>();
  const staged: StagedFiles = {
    async place(path) {
      const temporary = temporaries.get(path);
      if (temporary === undefined) {
        return false;
      }
      await rename(temporary, path).catch((error: unknown) => {
        throw explainWriteError(error, path);
      });
      temporaries.delete(path);
      return true;
    },
    async [Symbol.asyncDispose]() {
      await Promise.all(temporaries.values().map((temporary) => rm(temporary, { force: true })));
    },
  };
  try {
    for (const { path, text } of files) {
      await stageFile(path, text, temporaries);
    }
    return staged;
  } catch (error) {
    await staged[Symbol.asyncDispose]();
    throw error;
  }
}

async function stageFile(path: string, text: string, temporaries: Map<string, string>): Promise<void> {
  try {
    const existing = (await readIfExists(path))?.toString("utf8");
    if (existing === text) {
      return;
    }
    makeDirectory(dirname(path), 0o777);
    const temporary = join(dirname(path), `.${randomUUID()}.tmp`);
    temporaries.set(path, temporary);
    await writeFile(temporary, text, { flag: "wx", flush: true });
    if (existing !== undefined) {
      await chmod(temporary, (await stat(path)).mode & 0o777);
    }
  } catch (error) {
    throw explainWriteError(error, path);
  }
}

/** Removes a file. */
export async function removeFile(path: string): Promise<void> {
  try {
    await rm(path, { force: true });
  } catch (error) {
    throw explainWriteError(error, path);
  }
}

function explainWriteError(error: unknown, path: string): unknown {
  if (!(error instanceof Error && "code" in error)) {
    return error;
  }
  switch (error.code) {
    case "EACCES":
    case "EPERM":
    case "EROFS":
      return new CliFailure(`${path}: this user may not write it: change the permissions, or choose another place`);
    case "ENOENT":
      return new CliFailure(`${dirname(path)}: can't contain files: choose another place`);
    case "EISDIR":
      return new CliFailure(`${path}: is a folder: remove it, or choose another place`);
    case "ENOTDIR":
    case "EEXIST":
      return new CliFailure(`${path}: a part of this path is a file: remove it, or choose another place`);
    default:
      return new CliFailure(`${path}: can't be written (${String(error.code)})`);
  }
}
