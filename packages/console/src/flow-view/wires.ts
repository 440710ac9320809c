import type { JunctionElement, NodeElement, StubElement, SubflowPortElement, WireElement } from "./elements.ts";
import { readStatusPort, readSubflowPorts, type FlowNode, type FlowNodes } from "./flow-nodes.ts";
import { boxOfCurve, measures, outputOffset, wireCurve, type Point } from "./geometry.ts";

export type Bodies = ReadonlyMap<string, NodeElement | JunctionElement>;

/**
 * The wires between the nodes of a tab or subflow. Wires to nodes that are elsewhere or missing are left out, as in
 * Node-RED.
 */
export function* drawWires(placed: readonly FlowNode[], bodies: Bodies): Generator<WireElement> {
  for (const { id, wires } of placed) {
    const source = bodies.get(id);
    if (source === undefined) {
      continue;
    }
    const outputs = source.kind === "node" ? source.outputs : 1;
    for (const [port, targets] of wires.slice(0, Math.max(outputs, 1)).entries()) {
      for (const target of new Set(targets)) {
        const body = bodies.get(target);
        if (body !== undefined) {
          yield drawWire("wire", source, port, outputs, body);
        }
      }
    }
  }
}

/** The wire from an output of a node, of which it has `outputs`, to the input of another. */
export function drawWire(
  kind: "wire" | "link",
  source: NodeElement | JunctionElement,
  port: number,
  outputs: number,
  target: NodeElement | JunctionElement,
): WireElement {
  const curve = wireCurve(endOf(source, "right", outputOffset(port, outputs)), endOf(target, "left", 0));
  return {
    kind,
    id: `${source.id}:${port}:${target.id}`,
    box: boxOfCurve(curve),
    curve,
    from: source.id,
    to: target.id,
    isDisabled: source.isDisabled || target.isDisabled,
  };
}

/** Returns the end of a wire: at the side of a node, in the middle of a junction. */
function endOf(
  { kind, box }: NodeElement | JunctionElement | SubflowPortElement,
  side: "left" | "right",
  offset: number,
): Point {
  const share = kind === "junction" ? 0.5 : side === "right" ? 1 : 0;
  return { x: box.x + box.width * share, y: box.y + box.height / 2 + offset };
}

export function* drawPortWires(
  subflow: FlowNode,
  bodies: Bodies,
  ports: readonly SubflowPortElement[],
): Generator<WireElement> {
  for (const element of ports) {
    const index = (element.number ?? 1) - 1;
    const port =
      element.direction === "status" ? readStatusPort(subflow) : readSubflowPorts(subflow, element.direction)[index];
    for (const [id, output] of port?.wires ?? []) {
      const body = bodies.get(id);
      if (body === undefined) {
        continue;
      }
      const isInput = element.direction === "in";
      const [source, target] = isInput ? [element, body] : [body, element];
      const offset = !isInput && body.kind === "node" ? outputOffset(output, body.outputs) : 0;
      const curve = wireCurve(endOf(source, "right", offset), endOf(target, "left", 0));
      yield {
        kind: "wire",
        id: `${source.id}:${isInput ? 0 : output}:${target.id}`,
        box: boxOfCurve(curve),
        curve,
        from: source.id,
        to: target.id,
        isDisabled: body.isDisabled,
      };
    }
  }
}

/**
 * The links between the link nodes of a tab, and stubs with a tab's name for links to other tabs. Both ends name each
 * other; a link that only one end names is drawn too.
 */
export function* drawLinks(
  placed: readonly FlowNode[],
  nodes: FlowNodes,
  bodies: Bodies,
): Generator<WireElement | StubElement> {
  const drawn = new Set<string>();
  for (const node of placed) {
    const body = bodies.get(node.id);
    if (body === undefined || !linkTypes.has(node.type)) {
      continue;
    }
    const elsewhere = new Set<string>();
    for (const id of readLinks(node)) {
      const other = bodies.get(id);
      const partner = nodes.get(id);
      if (other !== undefined) {
        const [source, target] = node.type === "link in" ? [other, body] : [body, other];
        const wire = drawWire("link", source, 0, 1, target);
        if (!drawn.has(wire.id)) {
          drawn.add(wire.id);
          yield wire;
        }
      } else if (partner?.container !== undefined) {
        elsewhere.add(partner.container);
      }
    }
    const side = node.type === "link in" ? "left" : "right";
    for (const [index, id] of [...elsewhere].entries()) {
      const y = body.box.y + body.box.height / 2 + (index - (elsewhere.size - 1) / 2) * measures.node.height - 12;
      const x = side === "left" ? body.box.x - stubWidth : body.box.x + body.box.width;
      yield {
        kind: "stub",
        id: `${node.id}:${id}`,
        of: node.id,
        box: { x, y, width: stubWidth, height: 24 },
        side,
        label: nodes.container(id)?.name ?? id,
      };
    }
  }
}

const linkTypes: ReadonlySet<string> = new Set(["link in", "link out", "link call"]);
const stubWidth = 160;

function readLinks({ properties, type }: FlowNode): readonly string[] {
  const { links } = properties;
  const isReturn = type === "link out" && properties["mode"] === "return";
  return Array.isArray(links) && !isReturn ? links.filter((link) => typeof link === "string") : [];
}
