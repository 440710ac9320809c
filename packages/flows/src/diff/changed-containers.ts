import type { Configuration, FlowNode } from "../configuration.ts";
import { isSameSet } from "../credential-sets.ts";
import { isSameJson } from "../json.ts";
import { type Container, containerIdOf } from "../nodes.ts";

/** A tab, a subflow or the global container that a change of the flows touches. */
export type ChangedContainer = Pick<Container, "id"> & {
  /** "subflow" if it is one before or after the change. */
  readonly kind: Container["kind"];
  /** The labels of a tab before and after the change, as far as it exists and has one; equal ones are listed once. */
  readonly labels: readonly (string | undefined)[];
};

/**
 * Lists the containers of nodes that differ, credentials included, before or after the change, and of the nodes in
 * `touched`, whether they differ or not. The order of nodes does not matter.
 */
export function findChangedContainers(
  base: Configuration,
  target: Configuration,
  touched: ReadonlySet<string> = new Set(),
): readonly ChangedContainer[] {
  const before = indexNodes(base);
  const after = indexNodes(target);
  const changed = new Set<string>();
  for (const node of target.flows) {
    const old = before.get(node.id);
    const isChanged =
      old === undefined ||
      !isSameJson(old, node) ||
      !isSameSet(base.credentials.get(node.id), target.credentials.get(node.id));
    if (isChanged || touched.has(node.id)) {
      changed.add(containerIdOf(node));
      if (old !== undefined) {
        changed.add(containerIdOf(old));
      }
    }
  }
  for (const node of base.flows) {
    if (!after.has(node.id)) {
      changed.add(containerIdOf(node));
    }
  }
  const sides = [before, after].map((nodes) => ({ nodes, containers: new Set(nodes.values().map(containerIdOf)) }));
  return Array.from(changed, (id) =>
    describe(
      id,
      sides.filter(({ containers }) => containers.has(id)).map(({ nodes }) => nodes.get(id)),
    ),
  );
}

function indexNodes({ flows }: Configuration): ReadonlyMap<string, FlowNode> {
  return new Map(flows.map((node) => [node.id, node]));
}

/**
 * Describes a container from the versions that have it. A container without a node of its own is a tab without a label.
 */
function describe(id: string, versions: readonly (FlowNode | undefined)[]): ChangedContainer {
  if (id === "") {
    return { id, kind: "global", labels: [] };
  }
  const isTab = versions.every((node) => node?.type !== "subflow");
  const labels = new Set(versions.map((node) => labelOf(node)));
  return { id, kind: isTab ? "tab" : "subflow", labels: [...labels] };
}

function labelOf(node: FlowNode | undefined): string | undefined {
  const isContainer = node?.type === "tab" || node?.type === "subflow";
  return isContainer && typeof node.label === "string" ? node.label : undefined;
}
