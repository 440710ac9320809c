import type { JsonObject } from "@bufbuild/protobuf";
import type { FlowNode } from "../configuration.ts";
import { hasPosition } from "../node-role.ts";
import { isSameJson } from "../same-json.ts";
import type { MergedChange } from "./merge-result.ts";
import { isSameState, type NodeState, type Versions } from "./node-state.ts";

/** `state` is undefined if the node does not exist; `from` is undefined if neither side changed it. */
type MergedNode = { readonly state: NodeState | undefined; readonly from: MergedChange["from"] | undefined };

export function mergeNode({ base, ours, theirs }: Versions<NodeState | undefined>): MergedNode | "conflict" {
  if (isSameState(ours, theirs)) {
    return { state: ours, from: isSameState(base, ours) ? undefined : "both" };
  }
  if (isSameState(base, ours)) {
    return { state: theirs, from: "theirs" };
  }
  if (isSameState(base, theirs)) {
    return { state: ours, from: "ours" };
  }
  return base === undefined || ours === undefined || theirs === undefined
    ? "conflict"
    : mergeMoved({ base, ours, theirs });
}

/** Merges two changes of a node if at least one of them only moved it. */
function mergeMoved({ base, ours, theirs }: Versions<NodeState>): MergedNode | "conflict" {
  const plain = { base: withoutLayout(base), ours: withoutLayout(ours), theirs: withoutLayout(theirs) };
  const changed = isSameState(plain.base, plain.ours) ? theirs : ours;
  if (changed === ours && !isSameState(plain.base, plain.theirs) && !isSameState(plain.ours, plain.theirs)) {
    return "conflict";
  }
  const moved = isSameJson(layoutOf(base.node), layoutOf(ours.node)) ? theirs : ours;
  return { state: { ...changed, node: { ...changed.node, ...layoutOf(moved.node) } }, from: "both" };
}

/** Empty for a configuration node: whether a node has coordinates is not part of its layout. */
function layoutOf(node: FlowNode): JsonObject {
  const keys = !hasPosition(node) ? [] : node.type === "group" ? ["x", "y", "w", "h"] : ["x", "y"];
  return Object.fromEntries(keys.flatMap((key) => (Object.hasOwn(node, key) ? [[key, node[key] ?? null]] : [])));
}

function withoutLayout({ node, credentials }: NodeState): NodeState {
  const hidden = Object.keys(layoutOf(node)).map((key) => [key, null] as const);
  return { node: { ...node, ...Object.fromEntries(hidden) }, credentials };
}
