import type { FlowNode } from "../../configuration.ts";
import type { Finding } from "./finding.ts";

/** Finds link nodes that lead to nothing. A link exists if either of its ends lists the other. */
export function findUnlinkedNodes(flows: readonly FlowNode[]): readonly Finding[] {
  const inputs = new Set(flows.filter(({ type }) => type === "link in").map(({ id }) => id));
  const linkedByInput = new Set(flows.filter(({ type }) => type === "link in").flatMap(linksOf));
  return flows.flatMap((node) => {
    if (!needsLink(node)) {
      return [];
    }
    const links = linksOf(node);
    const lost = links.filter((id) => !inputs.has(id));
    if (links.length === 0 && !(node.type === "link out" && linkedByInput.has(node.id))) {
      return [{ node, message: "it is linked to nothing" }];
    }
    return lost.map((id) => ({
      node,
      message: `it is linked to ${JSON.stringify(id)}, which is not a "link in" node`,
    }));
  });
}

/** A "link out" node that returns to its caller has no links, nor does a call whose target is in the message. */
function needsLink({ type, mode, linkType }: FlowNode): boolean {
  return (type === "link out" && mode !== "return") || (type === "link call" && linkType !== "dynamic");
}

function linksOf({ links }: FlowNode): string[] {
  return (Array.isArray(links) ? links : [links]).filter((id) => typeof id === "string" && id !== "") as string[];
}
