import { parseJsonText } from "@flowgate/gateway/json-text";
import type { FlowNode } from "./configuration.ts";
import { type FlowNeeds, findNeeds } from "./plan/requirements.ts";

const utf8 = new TextDecoder("utf-8", { ignoreBOM: true });

/** The flows of a revision, which the store, the runtime and responses share. Immutable. */
export interface FlowsDocument {
  /** A JSON array of the nodes, in UTF-8. */
  readonly json: Uint8Array;
  /** The number of nodes. */
  readonly count: number;
  /** Parsed from `json` at the first access. */
  readonly nodes: readonly FlowNode[];
  /** The types of some ids; those without a node are undefined. Undefined: none is known without parsing `json`. */
  readonly types: NodeTypes | undefined;
  /** The modules that they need. Determined at the first access. */
  readonly needs: FlowNeeds;
}

/** Parsing, converting and formatting a document of this size takes a few milliseconds. Longer ones have threads. */
const maxShortBytes = 256 * 1024;

export function isLong({ json }: Pick<FlowsDocument, "json">): boolean {
  return json.length > maxShortBytes;
}

export type NodeTypes = ReadonlyMap<string, string | undefined>;

/** Returns the types of the nodes with these ids. Parses `json` if one is not known. */
export function findTypes(document: FlowsDocument, ids: ReadonlySet<string>): ReadonlyMap<string, string> {
  const known = document.types;
  if (ids.size === 0) {
    return new Map();
  }
  const isKnown = known !== undefined && ids.values().every((id) => known.has(id));
  return presentTypes(isKnown ? known : readTypes(document.nodes, ids), ids);
}

/** Returns the types of the nodes with these ids. */
export function findTypesOf(nodes: readonly FlowNode[], ids: ReadonlySet<string>): ReadonlyMap<string, string> {
  return presentTypes(readTypes(nodes, ids), ids);
}

function presentTypes(types: NodeTypes, ids: ReadonlySet<string>): ReadonlyMap<string, string> {
  return new Map(
    Array.from(ids, (id) => [id, types.get(id)] as const).filter(
      (entry): entry is [string, string] => entry[1] !== undefined,
    ),
  );
}

/** The types of these ids, for another thread. */
export function readTypes(nodes: readonly FlowNode[], ids: ReadonlySet<string>): NodeTypes {
  const types = new Map<string, string | undefined>(Array.from(ids, (id) => [id, undefined]));
  for (const { id, type } of nodes) {
    if (types.has(id)) {
      types.set(id, type);
    }
  }
  return types;
}

/** Creates a document from nodes. */
export function formatDocument(nodes: readonly FlowNode[]): FlowsDocument {
  return createDocument(new TextEncoder().encode(JSON.stringify(nodes)), nodes.length, () => nodes);
}

/**
 * Creates a document from valid JSON that `formatDocument` has produced, here or in another thread. Without the number of nodes, it is
 * parsed when that is needed, and so it is without the needs.
 */
export function parseDocument(json: Uint8Array, count?: number, types?: NodeTypes, needs?: FlowNeeds): FlowsDocument {
  let nodes: FlowNode[] | undefined;
  const readNodes = (): FlowNode[] => (nodes ??= parseJsonText(utf8.decode(json)) as FlowNode[]);
  return createDocument(json, count, readNodes, types, needs);
}

function createDocument(
  json: Uint8Array,
  count: number | undefined,
  readNodes: () => readonly FlowNode[],
  types?: NodeTypes,
  knownNeeds?: FlowNeeds,
) {
  let needs = knownNeeds;
  return Object.freeze<FlowsDocument>({
    json,
    types,
    get count() {
      return count ?? readNodes().length;
    },
    get nodes() {
      return readNodes();
    },
    get needs() {
      return (needs ??= findNeeds(readNodes()));
    },
  });
}
