import type { JsonObject, JsonValue } from "@bufbuild/protobuf";
import type { FlowNode } from "../configuration.ts";
import { type Content, toKey } from "./runtime-flows.ts";

/**
 * Whether the runtime can create an instance: it fails if an input is wired to a node that the subflow does not contain, or if
 * an output or the status is wired to a node or input without such a port.
 */
export function canStart(subflow: Content, instance: FlowNode): boolean {
  const inputs = portsOf(subflow, "in");
  const outputs = portsOf(subflow, "out");
  const hasInputs = inputs.every(({ wires }) => wires.every(({ id }) => find(subflow, id) !== undefined));
  const hasOutputs = outputs.every(({ wires }) =>
    wires.every(({ id, port }) => isInput(subflow, id, port, inputs.length) ?? hasWires(subflow, id)),
  );
  const hasStatus = portsOf(subflow, "status").every(({ wires }) =>
    wires.every(({ id, port }) => isInput(subflow, id, port, inputs.length) ?? hasWires(subflow, id)),
  );
  return hasInputs && hasOutputs && hasStatus && (outputs.length === 0 || Array.isArray(instance["wires"]));
}

/** Whether the runtime can change the wires of a running instance: not if an output is wired to a disabled node. */
export function canRewire(subflow: Content): boolean {
  const inputs = portsOf(subflow, "in").length;
  return portsOf(subflow, "out").every(({ wires }) =>
    wires.every(({ id, port }) => {
      const input = isInput(subflow, id, port, inputs);
      const node = find(subflow, id);
      const wiresOf = node?.["wires"];
      return input ?? (node === undefined || (node["d"] !== true && Array.isArray(wiresOf) && port in wiresOf));
    }),
  );
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
