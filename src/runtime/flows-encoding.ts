import { deserialize, serialize } from "node:v8";
import type { FlowNode } from "../flows/configuration.ts";
import type { FlowsDocument } from "../flows/document.ts";
import type { Deploy } from "./messages.ts";

/** Encodes the flows of a deployment for the child. */
export function encodeFlows(flows: FlowsDocument): Pick<Deploy, "encoding"> & { readonly payload: Uint8Array } {
  return flows.hasEscapedKey
    ? { encoding: "v8", payload: serialize(flows.nodes) }
    : { encoding: "json", payload: flows.json };
}

export function decodeFlows({ encoding }: Pick<Deploy, "encoding">, payload: Buffer): FlowNode[] {
  return (encoding === "v8" ? deserialize(payload) : JSON.parse(payload.toString())) as FlowNode[];
}
