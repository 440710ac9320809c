import { Budget, sizeOf } from "../budget.ts";
import type { Configuration, FlowNode } from "../configuration.ts";
import { type Container, containerIdOf, globalContainer, readContainers } from "../containers.ts";
import { nameOf, roleOf } from "../node-role.ts";
import { aspectOf } from "./aspects.ts";
import { diffCredentialNames, hasCredentialNames } from "./credential-names.ts";
import {
  type Aspect,
  aspects,
  type CredentialNames,
  type FlowsDiff,
  type NodeDiff,
  type PropertyChange,
} from "./flows-diff.ts";
import { diffOrder } from "./order.ts";
import { diffProperties, listProperties } from "./properties.ts";

/**
 * Compares two configurations node by node. The result contains the names of credentials, but never their values. Throws
 * `limit_exceeded` if it exceeds the budget.
 */
export function diffFlows(base: Configuration, target: Configuration, budget: Budget = new Budget()): FlowsDiff {
  const before = new Map(base.flows.map((node) => [node.id, node]));
  const after = new Map(target.flows.map((node) => [node.id, node]));
  const moves = diffOrder([...before.keys()], [...after.keys()]);
  const byContainer = new Map<string, NodeDiff[]>();
  const credentialsOf = (id: string): CredentialNames =>
    diffCredentialNames(base.credentials.get(id), target.credentials.get(id));

  function add(node: FlowNode, diff: NodeDiff): void {
    const container = containerIdOf(node);
    budget.addOutput(sizeOf(diff.id) + sizeOf(diff.type));
    for (const { path, before: old, after: current } of diff.properties) {
      budget.addOutput(path.reduce<number>((bytes, step) => bytes + sizeOf(step), sizeOf(old) + sizeOf(current)));
    }
    const diffs = byContainer.get(container);
    if (diffs === undefined) {
      byContainer.set(container, [diff]);
    } else if (node.id === container) {
      diffs.unshift(diff);
    } else {
      diffs.push(diff);
    }
  }

  for (const node of target.flows) {
    const diff = diffNode(before.get(node.id), node, credentialsOf(node.id), moves.get(node.id));
    if (diff !== undefined) {
      add(node, diff);
    }
  }
  for (const node of base.flows) {
    if (!after.has(node.id)) {
      add(node, removedNode(node, credentialsOf(node.id)));
    }
  }
  return {
    containers: orderedContainers(base, target).flatMap((container) => {
      const nodes = byContainer.get(container.id);
      return nodes === undefined ? [] : [{ ...container, nodes }];
    }),
  };
}

function orderedContainers(base: Configuration, target: Configuration): Container[] {
  const containers = readContainers(target.flows);
  const removed = [...readContainers(base.flows).values()].filter(({ id }) => !containers.has(id));
  return [...containers.values(), ...removed, globalContainer];
}

function diffNode(
  before: FlowNode | undefined,
  after: FlowNode,
  credentials: CredentialNames,
  predecessor: string | undefined,
): NodeDiff | undefined {
  if (before === undefined) {
    const properties = listProperties(after);
    return { ...describe(after), change: "added", aspects: [], properties, credentials, after: predecessor };
  }
  const properties = diffProperties(before, after);
  const changed = changedAspects(properties, before, after);
  if (predecessor !== undefined) {
    changed.add("order");
  }
  if (hasCredentialNames(credentials)) {
    changed.add("credentials");
  }
  return changed.size === 0
    ? undefined
    : {
        ...describe(after),
        change: "changed",
        aspects: aspects.filter((aspect) => changed.has(aspect)),
        properties,
        credentials,
        after: predecessor,
      };
}

function changedAspects(properties: readonly PropertyChange[], before: FlowNode, after: FlowNode): Set<Aspect> {
  return new Set(properties.map((property) => aspectOf(property, before, after)));
}

function removedNode(node: FlowNode, credentials: CredentialNames): NodeDiff {
  const properties = listProperties(node).map(({ path, after }) => ({ path, before: after, after: undefined }));
  return { ...describe(node), change: "removed", aspects: [], properties, credentials, after: undefined };
}

function describe(node: FlowNode): Pick<NodeDiff, "id" | "type" | "name" | "role"> {
  return { id: node.id, type: node.type, name: nameOf(node), role: roleOf(node) };
}
