import type { FlowNode } from "../configuration.ts";
import { isSameJson } from "../json.ts";
import { type Marks, followReferences } from "./references.ts";
import { findLinked } from "./wires.ts";
import { type RuntimeFlows, containerKey, toKey } from "./runtime-flows.ts";

/**
 * The ids of nodes that differ between two configurations, as the runtime classifies them to decide what to restart
 * (`diffConfigs` in @node-red/runtime/lib/flows/util.js). A node can be in several sets. Nodes in a subflow are not `changed`:
 * the instances of the subflow are.
 */
export type ModifiedNodes = {
  readonly added: ReadonlySet<string>;
  readonly changed: ReadonlySet<string>;
  readonly removed: ReadonlySet<string>;
  readonly rewired: ReadonlySet<string>;
  /** Wired to a modified node, directly or through others. */
  readonly linked: ReadonlySet<string>;
  /** Tabs whose environment differs. */
  readonly tabs: ReadonlySet<string>;
  /** The global environment differs: the runtime restarts everything. */
  readonly isGlobal: boolean;
};

/** `credentialsChanged` are the ids of the nodes whose credentials differ. */
export function findModified(
  before: RuntimeFlows,
  after: RuntimeFlows,
  credentialsChanged: ReadonlySet<string>,
): ModifiedNodes {
  const marks: Marks = {
    added: new Map(),
    changed: new Map(),
    removed: new Map(),
    rewired: new Map(),
    tabs: new Set(),
    subflows: new Set(),
    isGlobal: false,
  };
  markTabs(before, after, marks);
  markExisting(before, after, credentialsChanged, marks);
  const nestedGroups = markAdded(before, after, marks);
  followReferences(before, after, marks);
  for (const node of after.nodes.values()) {
    if (isInSubflow(node, after)) {
      marks.changed.delete(node.id);
    }
  }
  markNestedGroups(nestedGroups, marks);
  markInstances(after, marks);
  const [added, changed, removed, rewired] = [marks.added, marks.changed, marks.removed, marks.rewired].map(
    (each) => new Set(each.keys()),
  ) as [Set<string>, Set<string>, Set<string>, Set<string>];
  const modified = added.union(changed).union(removed).union(rewired);
  const linked = findLinked(before, after, modified);
  return { added, changed, removed, rewired, linked, tabs: marks.tabs, isGlobal: marks.isGlobal };
}

/** Marks removed or disabled tabs as `removed`, and enabled ones as `added`. */
function markTabs(before: RuntimeFlows, after: RuntimeFlows, { added, removed }: Marks): void {
  for (const id of before.tabs.keys()) {
    if (!after.tabs.has(id)) {
      removed.set(id, before.nodes.get(id));
    }
  }
  for (const [id, tab] of before.tabs) {
    const next = after.tabs.get(id);
    const wasDisabled = tab.definition?.["disabled"] || false;
    if (next !== undefined && wasDisabled !== (next.definition?.["disabled"] || false)) {
      (wasDisabled ? added : removed).set(id, before.nodes.get(id));
    }
  }
}

function markExisting(
  before: RuntimeFlows,
  after: RuntimeFlows,
  credentialsChanged: ReadonlySet<string>,
  marks: Marks,
): void {
  for (const [id, node] of before.nodes) {
    const next = after.nodes.get(id);
    if (node.type === "tab") {
      if (!marks.removed.has(id) && next !== undefined && JSON.stringify(node["env"]) !== JSON.stringify(next["env"])) {
        marks.tabs.add(id);
      }
    } else if (next === undefined || marks.removed.get(containerKey(node)) !== undefined) {
      marks.removed.set(id, node);
      if (marks.removed.get(containerKey(node)) === undefined) {
        markContainer(node, after, marks);
      }
    } else if (marks.added.get(containerKey(node)) !== undefined) {
      marks.added.set(id, node);
    } else {
      markDifferences(node, next, credentialsChanged, after, marks);
    }
  }
}

function markDifferences(
  node: FlowNode,
  next: FlowNode,
  credentialsChanged: ReadonlySet<string>,
  after: RuntimeFlows,
  marks: Marks,
): void {
  const { id } = node;
  if (!node["d"] && next["d"]) {
    marks.removed.set(id, node);
  }
  if (isReconfigured(node, next) || credentialsChanged.has(id)) {
    marks.changed.set(id, next);
    if (next.type === "subflow") {
      marks.subflows.add(id);
    }
    if (markContainer(next, after, marks)) {
      marks.changed.delete(id);
    }
    marks.isGlobal ||= next.type === "global-config";
  }
  if (!isSameJson(node["wires"], next["wires"])) {
    marks.rewired.set(id, next);
    if (markContainer(next, after, marks)) {
      marks.rewired.delete(id);
    }
  }
}

const layout: ReadonlySet<string> = new Set(["x", "y", "wires"]);
const groupLayout: ReadonlySet<string> = new Set([...layout, "nodes", "style", "w", "h"]);

/** True if two versions of a node differ in anything but wires and layout. */
function isReconfigured(before: FlowNode, after: FlowNode): boolean {
  const keysOf = (node: FlowNode): string[] => {
    const ignored = node.type === "group" ? groupLayout : layout;
    return Object.keys(node).filter((key) => !ignored.has(key));
  };
  const keys = keysOf(after);
  return keysOf(before).length !== keys.length || !keys.every((key) => isSameJson(before[key], after[key]));
}

/** Marks the tab or subflow of a node as changed. Returns whether it is a subflow. */
function markContainer(node: FlowNode, after: RuntimeFlows, { changed, subflows }: Marks): boolean {
  const container = after.nodes.get(containerKey(node));
  if (container === undefined) {
    return false;
  }
  changed.set(container.id, container);
  if (container.type === "subflow") {
    subflows.add(container.id);
  }
  return container.type === "subflow";
}

/** Returns the groups that are in other groups. */
function markAdded(before: RuntimeFlows, after: RuntimeFlows, marks: Marks): FlowNode[] {
  const nestedGroups: FlowNode[] = [];
  for (const [id, node] of after.nodes) {
    if (node.type === "group") {
      if (node["g"]) {
        nestedGroups.push(node);
      }
      if (marks.changed.has(id)) {
        markMembers(node, marks);
      }
    }
    if (!before.nodes.has(id)) {
      marks.added.set(id, node);
      if (markContainer(node, after, marks)) {
        marks.added.delete(id);
      }
    }
  }
  return nestedGroups;
}

/** Returns the members that were not marked before. */
function markMembers({ nodes }: FlowNode, { changed }: Marks): string[] {
  const unmarked = (Array.isArray(nodes) ? nodes : []).map(toKey).filter((id) => !changed.has(id));
  for (const id of unmarked) {
    changed.set(id, "member");
  }
  return unmarked;
}

/** Marks the nested groups that are in a changed group, or changed themselves, and their members. */
function markNestedGroups(nested: readonly FlowNode[], marks: Marks): void {
  const groups = new Map(nested.map((group) => [group.id, group]));
  const children = Map.groupBy(nested, ({ g }) => toKey(g));
  const pending = new Set(nested.filter(({ id, g }) => marks.changed.has(id) || marks.changed.has(toKey(g))));
  // Grows while it is visited.
  for (const group of pending) {
    if (!marks.changed.has(group.id)) {
      marks.changed.set(group.id, "member");
    }
    for (const id of [group.id, ...markMembers(group, marks)]) {
      for (const each of [groups.get(id), ...(children.get(id) ?? [])]) {
        if (each !== undefined) {
          pending.add(each);
        }
      }
    }
  }
}

/** Marks the instances of changed subflows, and of subflows that contain such an instance. */
function markInstances(after: RuntimeFlows, { changed, subflows }: Marks): void {
  const instances = Map.groupBy(after.nodes.values(), ({ type }) => type);
  const stack = [...subflows];
  for (let subflow = stack.pop(); subflow !== undefined; subflow = stack.pop()) {
    for (const instance of instances.get(`subflow:${subflow}`) ?? []) {
      if (changed.has(instance.id)) {
        continue;
      }
      changed.set(instance.id, instance);
      const container = after.nodes.get(containerKey(instance));
      if (container !== undefined && !changed.has(container.id)) {
        changed.set(container.id, container);
        if (container.type === "subflow") {
          stack.push(container.id);
          changed.delete(instance.id);
        }
      }
    }
  }
}

function isInSubflow(node: FlowNode, { nodes }: RuntimeFlows): boolean {
  return nodes.get(containerKey(node))?.type === "subflow";
}
