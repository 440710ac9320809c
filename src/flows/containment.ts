import type { Node } from "../../gen/flowgate/v1/flows_pb.ts";
import { numberComponents } from "./components.ts";
import { type Violation, quoteInput } from "./violation.ts";

/** Finds cycles of groups and subflows, on which the runtime would never finish starting. */
export type Containment = { findViolation(node: Node): Violation | undefined };

export function readContainment(nodes: readonly Node[]): Containment {
  const groups = new Map(nodes.filter((node) => node.type === "group").map((node) => [node.id, node]));
  const groupComponents = numberComponents(
    new Map(
      [...groups].map(([id, { properties }]) => [id, typeof properties?.["g"] === "string" ? [properties["g"]] : []]),
    ),
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

  function instantiatedBy(node: Node): string | undefined {
    const subflow = node.type.startsWith("subflow:") ? node.type.slice("subflow:".length) : undefined;
    return subflow !== undefined && subflows.has(subflow) ? subflow : undefined;
  }

  function containerOf(node: Node): string[] | undefined {
    const container = node.properties?.["z"];
    return typeof container === "string" ? subflows.get(container) : undefined;
  }

  function findGroupViolation(group: Node): Violation | undefined {
    const parentId = group.properties?.["g"];
    // For the runtime any falsy value means that the group has no parent.
    if (!parentId) {
      return undefined;
    }
    if (typeof parentId !== "string") {
      return { path: ["g"], message: "must be a string, the id of a group" };
    }
    const parent = groups.get(parentId);
    if (parent === undefined || parent.properties?.["z"] !== group.properties?.["z"]) {
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

  function findInstanceViolation(instance: Node): Violation | undefined {
    const container = instance.properties?.["z"];
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
