import { setImmediate } from "node:timers/promises";
import type { FlowNode } from "./configuration.ts";

/** The flows of a revision, which the store, the runtime and responses share. Immutable. */
export interface FlowsDocument {
  /** A JSON array of the nodes, in UTF-8. */
  readonly json: Uint8Array;
  /** The number of nodes. Reading it parses `json` if the number was not passed to `parseDocument`. */
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
  return Object.freeze({ json: Buffer.concat(parts), count: nodes.length, nodes });
}

/** Creates a document from valid JSON that `formatDocument` has produced, here or in another thread. */
export function parseDocument(json: Uint8Array, count?: number): FlowsDocument {
  let nodes: readonly FlowNode[] | undefined;
  const parse = (): readonly FlowNode[] =>
    (nodes ??= JSON.parse(Buffer.from(json.buffer, json.byteOffset, json.byteLength).toString()) as FlowNode[]);
  return Object.freeze({
    json,
    get count() {
      return count ?? parse().length;
    },
    get nodes() {
      return parse();
    },
  });
}
