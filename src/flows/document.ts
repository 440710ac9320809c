import { setImmediate } from "node:timers/promises";
import { hasEscapedKey, parseJsonText } from "@flowgate/transcoding/json-text";
import type { FlowNode } from "./configuration.ts";

/** What is known of a document without reading it. */
export type DocumentFacts = Pick<FlowsDocument, "count" | "hasEscapedKey">;

/** The flows of a revision, which the store, the runtime and responses share. Immutable. */
export interface FlowsDocument {
  /** A JSON array of the nodes, in UTF-8. */
  readonly json: Uint8Array;
  /** Whether JSON.parse of Node 26 may take some key in `json` for another one. */
  readonly hasEscapedKey: boolean;
  /** The number of nodes. */
  readonly count: number;
  /** Parsed from `json` at the first access. */
  readonly nodes: readonly FlowNode[];
}

// Formatting a slice takes one or two milliseconds. Other requests are served between slices.
const SLICE_NODES = 1000;

/** Creates a document from nodes. Yields to the event loop between slices. */
export async function formatDocument(nodes: readonly FlowNode[]): Promise<FlowsDocument> {
  const parts = [Buffer.from("[")];
  for (let start = 0; start < nodes.length; start += SLICE_NODES) {
    const json = JSON.stringify(nodes.slice(start, start + SLICE_NODES)).slice(1, -1);
    parts.push(Buffer.from(start === 0 ? json : `,${json}`));
    await setImmediate();
  }
  parts.push(Buffer.from("]"));
  return createDocument(Buffer.concat(parts), { count: nodes.length }, () => nodes);
}

/**
 * Creates a document from valid JSON that `formatDocument` has produced, here or in another thread. What is not among the facts is
 * read from the JSON when it is needed.
 */
export function parseDocument(json: Uint8Array, facts: Partial<DocumentFacts> = {}): FlowsDocument {
  let nodes: readonly FlowNode[] | undefined;
  return createDocument(json, facts, () => (nodes ??= parseJsonText(toBuffer(json).toString()) as FlowNode[]));
}

function createDocument(json: Uint8Array, facts: Partial<DocumentFacts>, readNodes: () => readonly FlowNode[]) {
  let isEscaped = facts.hasEscapedKey;
  return Object.freeze<FlowsDocument>({
    json,
    get hasEscapedKey() {
      return (isEscaped ??= hasEscapedKey(toBuffer(json).toString("latin1")));
    },
    get count() {
      return facts.count ?? readNodes().length;
    },
    get nodes() {
      return readNodes();
    },
  });
}

function toBuffer({ buffer, byteOffset, byteLength }: Uint8Array): Buffer {
  return Buffer.from(buffer, byteOffset, byteLength);
}
