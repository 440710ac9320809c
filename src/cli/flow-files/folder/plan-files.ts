import { extname } from "node:path/posix";
import type { FlowNode } from "../../../flows/configuration.ts";
import { containerIdOf, nameOf } from "../../../flows/nodes.ts";
import type { FileFormat } from "../format-nodes.ts";
import { toFileStem } from "./file-stem.ts";

/** A file that an export writes. */
export type PlannedFile = { readonly name: string; readonly nodes: readonly FlowNode[] };

/** The ids of the nodes in the files that are in the folder already, by file name. */
export type ExistingFiles = ReadonlyMap<string, ReadonlySet<string>>;

/**
 * Distributes nodes to files: one for each tab and each subflow, in their order, and `global` for all other nodes. A tab or
 * subflow stays in the file that contains it already; a new one gets a name made from its label, which no other file has.
 */
export function planFiles(flows: readonly FlowNode[], existing: ExistingFiles, format: FileFormat): PlannedFile[] {
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
