import type { Configuration, CredentialSets, FlowNode } from "../configuration.ts";
import { isSameJson } from "../json.ts";
import { type Container, containerIdOf } from "../nodes.ts";

/** A tab, a subflow or the global container that a change of the flows touches. */
export type ChangedContainer = Pick<Container, "id"> & {
  /** "subflow" also if it is one only before or after the change. */
  readonly kind: Container["kind"];
  /** The labels of a tab before and after the change, as far as it exists and has one; equal ones are listed once. */
  readonly labels: readonly (string | undefined)[];
};

/** Lists what contains the nodes that differ, with their credentials, before or after the change. The order of nodes does not matter. */
export function findChangedContainers(base: Configuration, target: Configuration): readonly ChangedContainer[] {
  const before = indexNodes(base);
  const after = indexNodes(target);
  const changed = new Set<string>();
  for (const node of target.flows) {
    const old = before.get(node.id);
    if (old === undefined || !isSameJson(old, node) || !hasSameCredentials(base, target, node.id)) {
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
  return Array.from(changed, (id) => describe(id, [before.get(id), after.get(id)]));
}

function indexNodes({ flows }: Configuration): ReadonlyMap<string, FlowNode> {
  return new Map(flows.map((node) => [node.id, node]));
}

function hasSameCredentials(base: Configuration, target: Configuration, id: string): boolean {
  const [old, current] = [credentialsOf(base.credentials, id), credentialsOf(target.credentials, id)];
  return old.size === current.size && old.entries().every(([name, value]) => current.get(name) === value);
}

function credentialsOf(sets: CredentialSets, id: string): ReadonlyMap<string, string> {
  return sets.get(id) ?? new Map();
}

/** A container without a node of its own is a tab without a label. */
function describe(id: string, versions: readonly (FlowNode | undefined)[]): ChangedContainer {
  const nodes = versions.filter((node) => node?.type === "tab" || node?.type === "subflow") as FlowNode[];
  const labels = new Set(nodes.map(({ label }) => (typeof label === "string" ? label : undefined)));
  const isTab = nodes.every(({ type }) => type === "tab");
  return { id, kind: id === "" ? "global" : isTab ? "tab" : "subflow", labels: [...labels] };
}
