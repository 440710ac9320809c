import type { JsonObject, JsonValue } from "@bufbuild/protobuf";
import type { FlowNode } from "../configuration.ts";
import { type Content, toKey } from "./runtime-flows.ts";

/** What the ports of a subflow mean for its instances. */
export type Ports = {
  /**
   * Whether the runtime can create an instance: it fails if an input is wired to a node that the subflow does not contain, or if an
   * output or the status is wired to a node or input without such a port.
   */
  canStart(instance: FlowNode): boolean;
  /** Whether the runtime can change the wires of a running instance: not if an output is wired to a disabled node. */
  readonly canRewire: boolean;
};

export function readPorts(subflow: Content): Ports {
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
function isInput({ definition }: Content, id: string, port: number, inputs: number): boolean | undefined {
  return id === definition?.id ? port < inputs : undefined;
}

/** A node that does not exist is skipped with an error in the log. */
function hasWires(subflow: Content, id: string): boolean {
  const node = find(subflow, id);
  return node === undefined || Array.isArray(node["wires"]);
}

function find({ nodes, configs }: Content, id: string): FlowNode | undefined {
  return nodes.get(id) ?? configs.get(id);
}

type Port = { readonly wires: readonly { readonly id: string; readonly port: number }[] };

/** The inputs, outputs, or the status port of a subflow. */
export function portsOf({ definition }: Pick<Content, "definition">, key: "in" | "out" | "status"): Port[] {
  const value = definition?.[key];
  const ports = Array.isArray(value) ? value : [value];
  return ports.filter(isObject).map(({ wires }) => ({
    wires: (Array.isArray(wires) ? wires : [])
      .filter(isObject)
      .map(({ id, port }) => ({ id: toKey(id), port: typeof port === "number" ? port : 0 })),
  }));
}

function isObject(value: JsonValue | undefined): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
