import type { JsonValue } from "./json.ts";
import { numberComponents } from "./components.ts";
import { type Violation, quoteInput } from "./violation.ts";

/** The properties of a node that determine what contains it, and what it contains. */
export type Contained = {
  readonly id: string;
  readonly type: string;
  readonly z?: JsonValue | undefined;
  readonly g?: JsonValue | undefined;
};

/** True if a node contains others, or is an instance of a subflow. No other nodes matter to `readContainment`. */
export function affectsContainment({ type }: Contained): boolean {
  return type === "group" || type === "subflow" || type.startsWith(instancePrefix);
}

const instancePrefix = "subflow:";

/** Finds cycles of groups and subflows, on which the runtime would never finish starting. */
export type Containment = { findViolation(node: Contained): Violation | undefined };

export function readContainment(nodes: readonly Contained[]): Containment {
  const groups = new Map(nodes.filter((node) => node.type === "group").map((node) => [node.id, node]));
  const groupComponents = numberComponents(
    new Map([...groups].map(([id, { g }]) => [id, typeof g === "string" ? [g] : []])),
  );

  const subflows = new Map<string, string[]>(
    nodes.filter((node) => node.type === "subflow").map((node) => [node.id, []]),
  );
  for (const node of nodes) {
    const contained = instantiatedBy(node);
    if (contained !== undefined) {
      containerOf(node)?.push(contained);
    }
  }
  const subflowComponents = numberComponents(subflows);

  function instantiatedBy(node: Contained): string | undefined {
    const subflow = node.type.startsWith(instancePrefix) ? node.type.slice(instancePrefix.length) : undefined;
    return subflow !== undefined && subflows.has(subflow) ? subflow : undefined;
  }

  function containerOf(node: Contained): string[] | undefined {
    return typeof node.z === "string" ? subflows.get(node.z) : undefined;
  }

  function findGroupViolation(group: Contained): Violation | undefined {
    const parentId = group.g;
    // For the runtime any falsy value means that the group has no parent.
    if (!parentId) {
      return undefined;
    }
    if (typeof parentId !== "string") {
      return { path: ["g"], message: "must be a string, the id of a group" };
    }
    const parent = groups.get(parentId);
    if (parent === undefined || parent.z !== group.z) {
      return {
        path: ["g"],
        message: `must be the id of a group on the same tab or subflow, and ${quoteInput(parentId)} is not`,
      };
    }
    if (groupComponents.get(group.id) === groupComponents.get(parentId)) {
      return {
        path: ["g"],
        message: `the group ${quoteInput(group.id)} must not contain itself, directly or through other groups`,
      };
    }
    return undefined;
  }

  function findInstanceViolation(instance: Contained): Violation | undefined {
    const container = instance.z;
    const contained = instantiatedBy(instance);
    if (typeof container !== "string" || contained === undefined || !subflows.has(container)) {
      return undefined;
    }
    if (subflowComponents.get(container) === subflowComponents.get(contained)) {
      return {
        path: ["type"],
        message: `the subflow ${quoteInput(container)} must not contain itself, directly or through other subflows`,
      };
    }
    return undefined;
  }

  return { findViolation: (node) => (node.type === "group" ? findGroupViolation(node) : findInstanceViolation(node)) };
}
