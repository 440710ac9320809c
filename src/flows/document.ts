import { setImmediate } from "node:timers/promises";
import type { FlowNode } from "./configuration.ts";

/** The flows of one revision, as the store, the runtime and the answers share them. Never changed once it is made. */
export interface FlowsDocument {
  /** A JSON array of the nodes, in UTF-8. */
  readonly json: Uint8Array;
  /** How many nodes there are; counting them parses `json` where the number was not given. */
  readonly count: number;
  /** Parsed of `json` at the first use, and kept. */
  readonly nodes: readonly FlowNode[];
}

// JSON.stringify takes a millisecond or two for a slice; other requests run between slices.
const SLICE_NODES = 1000;

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

/** Of bytes that are known to be good: what `formatDocument` made, or another thread that has checked and counted them. */
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
