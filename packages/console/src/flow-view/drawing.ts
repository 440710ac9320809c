import { appearanceOf, showsLabel } from "./appearance.ts";
import {
  boundsOf,
  type Drawing,
  type Element,
  type JunctionElement,
  type MeasureText,
  type NodeElement,
  type SubflowPortElement,
} from "./elements.ts";
import { readStatusPort, readSubflowPorts, type FlowNode, type FlowNodes } from "./flow-nodes.ts";
import { measures, nodeSize } from "./geometry.ts";
import { drawGroups } from "./groups.ts";
import { labelLines, labelOf } from "./labels.ts";
import { drawLinks, drawPortWires, drawWires } from "./wires.ts";

export function drawContainer(nodes: FlowNodes, id: string, measureText: MeasureText): Drawing {
  const container = nodes.container(id);
  const placed = nodes.in(id).filter(({ position }) => position !== undefined);
  const isTabDisabled = container?.isDisabled ?? false;
  const targets = new Set(placed.flatMap(({ wires }) => wires.flat()));
  const bodies = new Map<string, NodeElement | JunctionElement>();
  for (const node of placed) {
    if (node.type !== "group") {
      bodies.set(node.id, drawNode(node, nodes, targets.has(node.id), isTabDisabled, measureText));
    }
  }
  const ports = container?.kind === "subflow" ? drawSubflowPorts(container.node, measureText) : [];
  const elements: readonly Element[] = [
    ...drawGroups(placed, bodies, isTabDisabled, measureText),
    ...drawWires(placed, bodies),
    ...(container?.kind === "subflow" ? drawPortWires(container.node, bodies, ports) : []),
    ...drawLinks(placed, nodes, bodies),
    ...[...bodies.values()].toSorted((one, other) => Number(one.kind === "node") - Number(other.kind === "node")),
    ...ports,
  ];
  return { container: id, elements, bounds: boundsOf(elements) };
}

function drawNode(
  node: FlowNode,
  nodes: FlowNodes,
  isTarget: boolean,
  isTabDisabled: boolean,
  measureText: MeasureText,
): NodeElement | JunctionElement {
  const { x, y } = node.position ?? { x: 0, y: 0 };
  const isDisabled = node.isDisabled || isTabDisabled;
  if (node.type === "junction") {
    const { size } = measures.port;
    return {
      kind: "junction",
      id: node.id,
      box: { x: x - size / 2, y: y - size / 2, width: size, height: size },
      isDisabled,
    };
  }
  const { color, icon, iconSide, inputs, outputs, button } = appearanceOf(node, nodes, isTarget);
  const label = showsLabel(node) ? labelOf(node, nodes) : [];
  const { width, height } = nodeSize(
    label.length === 0 ? undefined : { lines: label.length, textWidth: Math.max(...label.map(measureText)) },
    { inputs, outputs },
  );
  return {
    kind: "node",
    id: node.id,
    type: node.type,
    box: { x: x - width / 2, y: y - height / 2, width, height },
    color,
    icon,
    iconSide,
    label,
    isItalic: node.name !== "",
    inputs: node.type === "link in" ? 0 : inputs,
    outputs,
    button,
    isDisabled,
  };
}

function drawSubflowPorts(node: FlowNode, measureText: MeasureText): readonly SubflowPortElement[] {
  const status = readStatusPort(node);
  return [
    ...readSubflowPorts(node, "in").map((port, index) => ({ port, index, direction: "in" as const })),
    ...readSubflowPorts(node, "out").map((port, index) => ({ port, index, direction: "out" as const })),
    ...(status === undefined ? [] : [{ port: status, index: 0, direction: "status" as const }]),
  ].map(({ port: { position }, index, direction }) => {
    const labels = node.properties[direction === "in" ? "inputLabels" : "outputLabels"];
    const label: unknown = Array.isArray(labels) && direction !== "status" ? labels[index] : undefined;
    const [line = ""] = typeof label === "string" ? labelLines(label) : [];
    const { subflowPort, grid } = measures;
    const width = line === "" ? subflowPort : grid * Math.ceil((measureText(line) + 57) / grid);
    return {
      kind: "port",
      id: `${node.id}:${direction}:${index}`,
      box: { x: position.x - width / 2, y: position.y - subflowPort / 2, width, height: subflowPort },
      direction,
      label: line,
      number: direction === "out" ? index + 1 : undefined,
    };
  });
}
