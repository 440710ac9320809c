import type { FlowNode } from "@flowgate/flows";
import { type NodeRef, maxNameChars, maxPathLength } from "../node-events.ts";

type Definitions = ReadonlyMap<string, FlowNode>;

/** Found nodes that are kept, so that each is searched once. */
const maxFound = 20_000;

/**
 * Finds nodes in the flows as they were deployed. In each instance of a subflow, the runtime gives a node the id `INSTANCE-NODE`, where
 * the instance can have such an id itself.
 */
export class NodeLocator {
  #definitions: Definitions = new Map();
  /** Those of the deployment before, whose nodes are still being stopped. */
  #previous: Definitions = new Map();
  readonly #found = new Map<string, NodeRef>();

  replace(nodes: readonly FlowNode[]): void {
    this.#previous = this.#definitions;
    this.#definitions = new Map(nodes.map((node) => [node.id, node]));
    this.#found.clear();
  }

  /** The runtime has rejected the flows of the last `replace`. */
  revert(): void {
    this.#definitions = this.#previous;
    this.#found.clear();
  }

  /** A node that is not part of the flows has its id only. */
  locate(id: string): NodeRef {
    const known = this.#found.get(id);
    if (known !== undefined) {
      return known;
    }
    const ref = find(this.#definitions, id) ?? find(this.#previous, id) ?? { nodeId: id.slice(0, maxNameChars) };
    if (this.#found.size >= maxFound) {
      this.#found.clear();
    }
    this.#found.set(id, ref);
    return ref;
  }
}

function find(definitions: Definitions, id: string): NodeRef | undefined {
  const chain = findChain(definitions, id);
  const node = chain?.at(-1);
  const outermost = chain?.[0];
  if (chain === undefined || node === undefined || outermost === undefined) {
    return undefined;
  }
  const { z } = outermost;
  const flow = typeof z === "string" ? definitions.get(z) : undefined;
  const name = node["name"];
  const label = flow?.["label"];
  return {
    nodeId: cut(node.id),
    nodeType: cut(node.type),
    ...(typeof name === "string" && name !== "" && { nodeName: cut(name) }),
    ...(typeof z === "string" && z !== "" && { flowId: cut(z) }),
    ...(typeof label === "string" && label !== "" && { flowLabel: cut(label) }),
    ...(chain.length > 1 && {
      subflowPath: chain
        .slice(0, -1)
        .slice(0, maxPathLength)
        .map((each) => cut(each.id)),
    }),
  };
}

/** The node behind the instances that contain it; of a node within a subflow of a module, the instance. */
function findChain(definitions: Definitions, id: string): FlowNode[] | undefined {
  const node = definitions.get(id);
  if (node !== undefined) {
    return [node];
  }
  for (let at = id.lastIndexOf("-"); at > 0; at = id.lastIndexOf("-", at - 1)) {
    const inner = definitions.get(id.slice(at + 1));
    const instance = inner && findChain(definitions, id.slice(0, at));
    const subflow = inner?.["z"];
    if (inner !== undefined && typeof subflow === "string" && instance?.at(-1)?.type === `subflow:${subflow}`) {
      return [...instance, inner];
    }
  }
  for (let at = id.lastIndexOf("-"); at > 0; at = id.lastIndexOf("-", at - 1)) {
    const instance = definitions.get(id.slice(0, at));
    if (instance !== undefined) {
      return [instance];
    }
  }
  return undefined;
}

function cut(text: string): string {
  return text.slice(0, maxNameChars);
}
