import { setImmediate } from "node:timers/promises";
import { parseJsonText } from "@flowgate/transcoding/json-text";
import type { FlowNode } from "./configuration.ts";

/** The flows of a revision, which the store, the runtime and responses share. Immutable. */
export interface FlowsDocument {
  /** A JSON array of the nodes, in UTF-8. */
  readonly json: Uint8Array;
  /** The number of nodes. */
  readonly count: number;
  /** Parsed from `json` at the first access. */
  readonly nodes: readonly FlowNode[];
}

// Formatting a slice takes one or two milliseconds. Other requests are served between slices.
const sliceNodes = 1000;

/** Creates a document from nodes. Yields to the event loop between slices. */
export async function formatDocument(nodes: readonly FlowNode[]): Promise<FlowsDocument> {
  const parts = [Buffer.from("[")];
  for (let start = 0; start < nodes.length; start += sliceNodes) {
    const json = JSON.stringify(nodes.slice(start, start + sliceNodes)).slice(1, -1);
    parts.push(Buffer.from(start === 0 ? json : `,${json}`));
    await setImmediate();
  }
  parts.push(Buffer.from("]"));
  return createDocument(Buffer.concat(parts), nodes.length, () => nodes);
}

/**
 * Creates a document from valid JSON that `formatDocument` has produced, here or in another thread. Without the number of nodes, it is
 * parsed when that is needed.
 */
export function parseDocument(json: Uint8Array, count?: number): FlowsDocument {
  let nodes: FlowNode[] | undefined;
  return createDocument(json, count, () => (nodes ??= parseJsonText(toBuffer(json).toString()) as FlowNode[]));
}

function createDocument(json: Uint8Array, count: number | undefined, readNodes: () => readonly FlowNode[]) {
  return Object.freeze<FlowsDocument>({
    json,
    get count() {
      return count ?? readNodes().length;
    },
    get nodes() {
      return readNodes();
    },
  });
}

function toBuffer({ buffer, byteOffset, byteLength }: Uint8Array): Buffer {
  return Buffer.from(buffer, byteOffset, byteLength);
}
