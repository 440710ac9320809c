import type { Box, Point } from "./geometry.ts";

export type FlowNode = {
  readonly id: string;
  readonly type: string;
  readonly name: string;
  /** The tab or subflow that it is in; undefined: it is one, or a global configuration node. */
  readonly container: string | undefined;
  readonly group: string | undefined;
  /** The centre, and for a group the top left corner; undefined: a configuration node, which has no place. */
  readonly position: Point | undefined;
  /** For each output the ids of the nodes that it is wired to. */
  readonly wires: readonly (readonly string[])[];
  readonly isDisabled: boolean;
  /** Undefined: as the type has it. */
  readonly hasLabel: boolean | undefined;
  readonly properties: Properties;
};

export type Properties = Readonly<Record<string, unknown>>;

type ContainerBase = { readonly id: string; readonly name: string; readonly isDisabled: boolean };

/** A tab or a subflow. A tab is missing if it exists only as the `z` of nodes, which run: an exported selection has no tab. */
export type FlowContainer =
  | (ContainerBase & { readonly kind: "tab"; readonly isMissing: boolean })
  | (ContainerBase & { readonly kind: "subflow"; readonly node: FlowNode });

export type SubflowPort = {
  readonly position: Point;
  readonly wires: readonly (readonly [id: string, port: number])[];
};

/** More cannot be seen, and Node-RED's workspace has 8,000 in each direction. */
const maxCoordinate = 1_000_000;

/** The limit of Node-RED's function node. */
const maxOutputs = 500;

export class FlowNodes {
  readonly containers: readonly FlowContainer[];
  readonly #nodes = new Map<string, FlowNode>();
  readonly #inContainer = new Map<string, FlowNode[]>();

  constructor(nodes: Iterable<FlowNode>) {
    const containers: FlowContainer[] = [];
    for (const node of nodes) {
      if (this.#nodes.has(node.id)) {
        continue;
      }
      this.#nodes.set(node.id, node);
      if (node.type === "tab" || node.type === "subflow") {
        containers.push(readContainer(node, node.type));
      } else if (node.container !== undefined) {
        const siblings = this.#inContainer.get(node.container);
        if (siblings === undefined) {
          this.#inContainer.set(node.container, [node]);
        } else {
          siblings.push(node);
        }
      }
    }
    const missing = Array.from(findMissingTabs(this.#nodes.values()), (id): FlowContainer => {
      return { id, kind: "tab", name: id, isDisabled: false, isMissing: true };
    });
    this.containers = [...containers, ...missing];
  }

  get size(): number {
    return this.#nodes.size;
  }

  get(id: string): FlowNode | undefined {
    return this.#nodes.get(id);
  }

  all(): Iterable<FlowNode> {
    return this.#nodes.values();
  }

  in(container: string): readonly FlowNode[] {
    return this.#inContainer.get(container) ?? [];
  }

  container(id: string): FlowContainer | undefined {
    return this.containers.find((container) => container.id === id);
  }

  subflowOf(node: FlowNode): FlowNode | undefined {
    const definition = node.type.startsWith("subflow:") ? this.#nodes.get(node.type.slice(8)) : undefined;
    return definition?.type === "subflow" ? definition : undefined;
  }
}

/**
 * Finds the tabs that exist only as the `z` of nodes that messages pass through, as the service does: an exported selection of nodes has no
 * tab, and the runtime creates it.
 */
export function findMissingTabs(
  nodes: Iterable<Pick<FlowNode, "id" | "type"> & { readonly properties?: Properties | undefined }>,
): ReadonlySet<string> {
  const known = new Set<string>();
  const referenced = new Set<string>();
  for (const { id, type, properties = {} } of nodes) {
    const { z, wires } = properties;
    if (type === "tab" || type === "subflow") {
      known.add(id);
    } else if (
      type !== "group" &&
      typeof z === "string" &&
      (("x" in properties && "y" in properties) || Array.isArray(wires))
    ) {
      referenced.add(z);
    }
  }
  return new Set([...referenced].filter((id) => id !== "" && !known.has(id)));
}

/** Reads nodes as `GET /flows` has them. What is not a node is left out; a value that cannot be used counts as missing. */
export function parseFlowNodes(raw: Iterable<unknown>): FlowNodes {
  return new FlowNodes(readNodes(raw));
}

function* readNodes(raw: Iterable<unknown>): Generator<FlowNode> {
  for (const value of raw) {
    if (!isRecord(value) || typeof value["id"] !== "string" || typeof value["type"] !== "string") {
      continue;
    }
    yield {
      id: value["id"],
      type: value["type"],
      name: readText(value, "name"),
      container: optionalText(value["z"]),
      group: optionalText(value["g"]),
      position: readPosition(value),
      wires: readWires(value["wires"]),
      isDisabled: value["d"] === true,
      hasLabel: typeof value["l"] === "boolean" ? value["l"] : undefined,
      properties: value,
    };
  }
}

function readContainer(node: FlowNode, kind: "tab" | "subflow"): FlowContainer {
  const { id, name, properties } = node;
  const isDisabled = properties["disabled"] === true;
  return kind === "tab"
    ? { id, kind, name: readText(properties, "label") || id, isDisabled, isMissing: false }
    : { id, kind, name: name || id, isDisabled, node };
}

export function readSubflowPorts(subflow: FlowNode, direction: "in" | "out"): readonly SubflowPort[] {
  const ports = subflow.properties[direction];
  return (Array.isArray(ports) ? ports : []).slice(0, maxOutputs).map(readSubflowPort);
}

/** The output that has the status of the instances of a subflow. */
export function readStatusPort(subflow: FlowNode): SubflowPort | undefined {
  const port = subflow.properties["status"];
  return isRecord(port) ? readSubflowPort(port) : undefined;
}

function readSubflowPort(port: unknown): SubflowPort {
  const { x, y, wires } = isRecord(port) ? port : {};
  return {
    position: { x: coordinate(x) ?? 0, y: coordinate(y) ?? 0 },
    wires: (Array.isArray(wires) ? wires : []).flatMap((wire) => {
      if (!isRecord(wire) || typeof wire["id"] !== "string") {
        return [];
      }
      return [[wire["id"], Math.trunc(coordinate(wire["port"]) ?? 0)] as const];
    }),
  };
}

export function readGroupBox(group: FlowNode): Box | undefined {
  const width = coordinate(group.properties["w"]);
  const height = coordinate(group.properties["h"]);
  if (group.position === undefined || width === undefined || height === undefined || width <= 0 || height <= 0) {
    return undefined;
  }
  return { ...group.position, width, height };
}

/** A text or a number as text; "" if there is neither. */
export function readText(properties: Properties, name: string): string {
  const value = Object.hasOwn(properties, name) ? properties[name] : undefined;
  return typeof value === "string" ? value : typeof value === "number" ? String(value) : "";
}

/** A number of ports; undefined: the node does not state one. */
export function readPortCount(properties: Properties, name: "inputs" | "outputs"): number | undefined {
  const text = readText(properties, name);
  const count = text === "" ? Number.NaN : Math.trunc(Number(text));
  return count >= 0 ? Math.min(count, maxOutputs) : undefined;
}

export function isRecord(value: unknown): value is Properties {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Configuration nodes have neither coordinates nor wires. */
function readPosition({ x, y, wires, type }: Properties): Point | undefined {
  const [left, top] = [coordinate(x), coordinate(y)];
  const isConfig = left === undefined && top === undefined && !Array.isArray(wires) && type !== "group";
  return isConfig ? undefined : { x: left ?? 0, y: top ?? 0 };
}

function readWires(value: unknown): readonly (readonly string[])[] {
  return (Array.isArray(value) ? value : [])
    .slice(0, maxOutputs)
    .map((targets) => (Array.isArray(targets) ? targets.filter((target) => typeof target === "string") : []));
}

function coordinate(value: unknown): number | undefined {
  const number = typeof value === "string" && value !== "" ? Number(value) : value;
  return typeof number === "number" && !Number.isNaN(number)
    ? Math.max(-maxCoordinate, Math.min(maxCoordinate, number))
    : undefined;
}

function optionalText(value: unknown): string | undefined {
  return typeof value === "string" && value !== "" ? value : undefined;
}
