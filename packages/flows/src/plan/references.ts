import type { FlowNode } from "../configuration.ts";
import { type RuntimeFlows, containerKey, toKey } from "./runtime-flows.ts";

/**
 * The intermediate state of the classification, by id. The values are the nodes; undefined for a tab that does not
 * exist.
 */
export type Marks = {
  readonly added: Map<string, FlowNode | undefined>;
  /** `"member"` if only the group is changed. */
  readonly changed: Map<string, FlowNode | "member">;
  readonly removed: Map<string, FlowNode | undefined>;
  readonly rewired: Map<string, FlowNode>;
  readonly tabs: Set<string>;
  readonly subflows: Set<string>;
  isGlobal: boolean;
};

type Reference = { readonly node: FlowNode; readonly property: string };

/** Marks the nodes as changed of which a property refers to a node that is changed or removed, directly or through others. */
export function followReferences(before: RuntimeFlows, after: RuntimeFlows, marks: Marks): void {
  const { references, always } = readReferences(before, after);
  const removed = [...marks.removed].filter(([, node]) => node !== undefined).map(([id]) => id);
  const pending = [...marks.changed.keys(), ...removed];

  function mark(node: FlowNode): void {
    if (marks.changed.has(node.id)) {
      return;
    }
    marks.changed.set(node.id, node);
    pending.push(node.id);
    const container = after.nodes.get(containerKey(node));
    if (container === undefined) {
      return;
    }
    if (!marks.changed.has(container.id)) {
      pending.push(container.id);
    }
    marks.changed.set(container.id, container);
    if (container.type === "subflow") {
      marks.subflows.add(container.id);
    }
  }

  for (const node of always) {
    mark(node);
  }
  for (let id = pending.pop(); id !== undefined; id = pending.pop()) {
    const origin = marks.changed.get(id);
    for (const { node, property } of references.get(id) ?? []) {
      // The members of a changed group are marked with the group, unless they have just joined it.
      const isMember = property === "g" && typeof origin === "object" && origin.type === "group";
      if (!isMember || before.nodes.get(node.id)?.["g"] !== node["g"] || !before.nodes.has(node.id)) {
        mark(node);
      }
    }
  }
}

const ignored: ReadonlySet<string> = new Set(["z", "id", "wires"]);

/**
 * Finds the properties whose value is the id of a node. The runtime looks values up in plain objects and so takes names
 * of Object.prototype, such as "constructor", for changed nodes: nodes with such a property are `always` marked.
 */
function readReferences(
  before: RuntimeFlows,
  after: RuntimeFlows,
): { readonly references: ReadonlyMap<string, readonly Reference[]>; readonly always: readonly FlowNode[] } {
  const references = new Map<string, Reference[]>();
  const always: FlowNode[] = [];
  for (const node of after.nodes.values()) {
    for (const property of Object.keys(node)) {
      if (ignored.has(property)) {
        continue;
      }
      const key = toKey(node[property]);
      if (key in Object.prototype) {
        always.push(node);
      } else if (after.nodes.has(key) || before.nodes.has(key)) {
        references.getOrInsertComputed(key, () => []).push({ node, property });
      }
    }
  }
  return { references, always };
}
