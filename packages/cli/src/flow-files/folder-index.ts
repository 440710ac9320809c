import { join } from "node:path";
import { Document, visit } from "yaml";
import { hasCode } from "@flowgate/base/error-code";
import { type FlowNode, hasPosition } from "@flowgate/flows";
import { formatYaml } from "../yaml.ts";
import { explainReadError, readIfExists } from "./read-file.ts";
import { failureAt, parseSource } from "./source.ts";

/** The part of a folder's configuration that is not in the files of its nodes. */
type FolderIndex = {
  /** The files that an export has written: tabs and subflows in their order, then the global configuration nodes. */
  readonly files: readonly string[];
  /** Where nodes are in the order of the configuration if not at their usual place: the id of the node before each, "" for none. */
  readonly moved: ReadonlyMap<string, string>;
};

export const indexName = "index.yaml";

/** The name of a file by the folder's layout, which can't lead out of the folder. */
const fileName = /^(?:(?:tabs|subflows)\/(?!\.)[^/\\]+|global)\.(?:yaml|yml|json)$/i;

const comment = `# Written by "flowgate export", and read with the files beside it. Tabs and subflows are in the order of this list.
# To add or remove a tab, add or remove its file. This file needs no change.
`;

export function formatIndex({ files, moved }: FolderIndex): string {
  const document = new Document({
    flowgateExport: 1,
    files,
    ...(moved.size > 0 && { moved: Array.from(moved, ([node, after]) => ({ node, after })) }),
  });
  visit(document, {
    Map(_key, map, path) {
      map.flow = path.length > 1;
    },
  });
  return comment + formatYaml(document);
}

/** Returns undefined if the folder has no index. Throws a FlowFilesFailure if the file is not an index, or invalid. */
export async function readIndex(folder: string): Promise<FolderIndex | undefined> {
  const file = join(folder, indexName);
  const bytes = await readIfExists(file).catch((error: unknown) => {
    if (hasCode(error, "ENOTDIR")) {
      return undefined;
    }
    throw explainReadError(error, file);
  });
  if (bytes === undefined) {
    return undefined;
  }
  const source = parseSource(file, bytes);
  const { flowgateExport, files, moved = [] } = Object(source.value) as Readonly<Record<string, unknown>>;
  if (flowgateExport === undefined) {
    throw failureAt(
      source,
      [],
      'is not an index that "flowgate export" has written: rename the file, or use another folder',
    );
  }
  if (flowgateExport !== 1) {
    throw failureAt(
      source,
      ["flowgateExport"],
      "was written by another version of Flowgate: use that version or a newer one",
    );
  }
  if (!Array.isArray(files)) {
    throw failureAt(source, ["files"], "files: must be an array of file names");
  }
  for (const [index, name] of files.entries()) {
    if (typeof name !== "string" || !fileName.test(name)) {
      throw failureAt(
        source,
        ["files", index],
        'must be the name of a file such as "tabs/a.yaml", "subflows/a.yaml" or "global.yaml"',
      );
    }
  }
  if (!Array.isArray(moved) || !moved.every(isMove)) {
    throw failureAt(source, ["moved"], "moved: must be an array of objects with the ids node and after");
  }
  return { files: files as string[], moved: new Map(moved.map(({ node, after }) => [node, after])) };
}

type Move = { readonly node: string; readonly after: string };

function isMove(value: unknown): value is Move {
  const { node, after } = Object(value) as Partial<Move>;
  return typeof node === "string" && typeof after === "string";
}

/**
 * The order in which Node-RED's editor saves nodes: tabs, subflows, groups, junctions, configuration nodes, others, each of
 * them in the order of `items`. `nodeOf` returns undefined for what is not a node, which comes last.
 */
export function sortAsEditor<T>(items: readonly T[], nodeOf: (item: T) => FlowNode | undefined): T[] {
  const sections = Map.groupBy(items, (item) => sectionOf(nodeOf(item)));
  return sectionNames.flatMap((name) => sections.get(name) ?? []);
}

const sectionNames = ["tab", "subflow", "group", "junction", "config", "other"] as const;

function sectionOf(node: FlowNode | undefined): (typeof sectionNames)[number] {
  switch (node?.type) {
    case undefined:
      return "other";
    case "tab":
    case "subflow":
    case "group":
    case "junction":
      return node.type;
    default:
      return hasPosition(node as FlowNode) ? "other" : "config";
  }
}

/**
 * Moves each item of `moves` behind its new predecessor, in their order; "" is the place before all others. This is the
 * inverse of `diffOrder`, and has a result too for items that were added or removed since: unknown ids are ignored.
 */
export function applyMoves<T>(
  items: readonly T[],
  idOf: (item: T) => string | undefined,
  moves: ReadonlyMap<string, string>,
): T[] {
  const indices = new Map(items.map((item, index) => [idOf(item), index]));
  // A circular linked list. Its head, -1 as the predecessor of the first item, has the last index.
  const head = items.length;
  const next = Array.from({ length: head + 1 }, (_, index) => (index + 1) % (head + 1));
  const previous = Array.from({ length: head + 1 }, (_, index) => (index + head) % (head + 1));
  for (const [id, predecessorId] of moves) {
    const index = indices.get(id);
    const predecessor = predecessorId === "" ? head : indices.get(predecessorId);
    if (index !== undefined && predecessor !== undefined && index !== predecessor) {
      link(previous[index] as number, next[index] as number);
      link(index, next[predecessor] as number);
      link(predecessor, index);
    }
  }
  return Array.from(follow(), (index) => items[index] as T);

  function link(one: number, other: number): void {
    next[one] = other;
    previous[other] = one;
  }

  function* follow(): Generator<number> {
    for (let index = next[head] as number; index !== head; index = next[index] as number) {
      yield index;
    }
  }
}
