import type { FlowNode } from "../configuration.ts";
import { type FlowContent, type RuntimeFlows, toKey } from "./runtime-flows.ts";
import { isJsonObject } from "../json.ts";

/**
 * Finds the nodes that are wired to modified ones, in either direction, directly or through others, by the wires before or
 * after the change. Modified nodes are not included.
 */
export function findLinked(
  before: RuntimeFlows,
  after: RuntimeFlows,
  modified: ReadonlySet<string>,
): ReadonlySet<string> {
  const neighbours = new Map<string, string[]>();
  const connect = (id: string, other: string): void => {
    neighbours.getOrInsertComputed(id, () => []).push(other);
  };
  for (const { nodes } of [before, after]) {
    for (const node of nodes.values()) {
      for (const target of targetsOf(node)) {
        connect(node.id, target);
        if (nodes.has(target)) {
          connect(target, node.id);
        }
      }
    }
  }

  const linked = new Set<string>();
  const visited = new Set(modified);
  const pending = [...modified];
  for (let id = pending.pop(); id !== undefined; id = pending.pop()) {
    for (const neighbour of neighbours.get(id) ?? []) {
      if (!visited.has(neighbour)) {
        visited.add(neighbour);
        pending.push(neighbour);
        if (neighbours.has(neighbour)) {
          linked.add(neighbour);
        }
      }
    }
  }
  return linked;
}

/** The ids that the wires of a node lead to. */
export function targetsOf({ type, wires }: FlowNode): string[] {
  return type === "tab" || !Array.isArray(wires) ? [] : (wires.flat() as string[]);
}

/** The ports of a subflow, as its instances connect to them. */
export type Ports = {
  /**
   * True if the runtime can create an instance: it fails if an input is wired to a node that the subflow does not contain, or if an
   * output or the status is wired to a node or input without such a port.
   */
  canStart(instance: FlowNode): boolean;
  /** True if the runtime can change the wires of a running instance: not if an output is wired to a disabled node. */
  readonly canRewire: boolean;
};

export function readPorts(subflow: FlowContent): Ports {
  const [inputs, outputs, status] = [portsOf(subflow, "in"), portsOf(subflow, "out"), portsOf(subflow, "status")];
  const isStartable =
    inputs.every(({ wires }) => wires.every(({ id }) => find(subflow, id) !== undefined)) &&
    [...outputs, ...status].every(({ wires }) =>
      wires.every(({ id, port }) => isInput(subflow, id, port, inputs.length) ?? hasWires(subflow, id)),
    );
  return {
    canStart: ({ wires }) => isStartable && (outputs.length === 0 || Array.isArray(wires)),
    canRewire: outputs.every(({ wires }) =>
      wires.every(({ id, port }) => {
        const node = find(subflow, id);
        const wiresOf = node?.["wires"];
        return (
          isInput(subflow, id, port, inputs.length) ??
          (node === undefined || (node["d"] !== true && Array.isArray(wiresOf) && port in wiresOf))
        );
      }),
    ),
  };
}

/** Undefined if the wire does not lead to the subflow's own inputs. */
function isInput({ definition }: FlowContent, id: string, port: number, inputs: number): boolean | undefined {
  return id === definition?.id ? port < inputs : undefined;
}

/** A node that does not exist is skipped with an error in the log. */
function hasWires(subflow: FlowContent, id: string): boolean {
  const node = find(subflow, id);
  return node === undefined || Array.isArray(node["wires"]);
}

function find({ nodes, configs }: FlowContent, id: string): FlowNode | undefined {
  return nodes.get(id) ?? configs.get(id);
}

/** The nodes at the other end of a node's links. */
export function linksOf({ links }: FlowNode): string[] {
  return (Array.isArray(links) ? links : [links]).filter((id) => typeof id === "string" && id !== "") as string[];
}

type Port = { readonly wires: readonly { readonly id: string; readonly port: number }[] };

/** The inputs, outputs, or the status port of a subflow. */
export function portsOf({ definition }: Pick<FlowContent, "definition">, key: "in" | "out" | "status"): Port[] {
  const value = definition?.[key];
  const ports = Array.isArray(value) ? value : [value];
  return ports
    .filter(isJsonObject)
    .map(({ wires }) => ({
      wires: (Array.isArray(wires) ? wires : [])
        .filter(isJsonObject)
        .map(({ id, port }) => ({ id: toKey(id), port: typeof port === "number" ? port : 0 })),
    }));
}
