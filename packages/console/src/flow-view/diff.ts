import { type ContainerDiff, NodeAspect, NodeChange, type NodeDiff } from "@flowgate/client";
import { drawContainer } from "./drawing.ts";
import {
  boundsOf,
  type ChangeMark,
  type Drawing,
  type Element,
  type JunctionElement,
  type MeasureText,
  type MoveElement,
  type NodeElement,
  type WireElement,
} from "./elements.ts";
import type { FlowNodes } from "./flow-nodes.ts";
import { centerOf, type Box } from "./geometry.ts";
import { nameOf } from "./labels.ts";
import { drawWire } from "./wires.ts";

type ChangeKind = ChangeMark | "rewired";

export type NodeChangeSummary = {
  readonly id: string;
  readonly name: string;
  readonly type: string;
  /** At least one, the most important first. */
  readonly kinds: readonly ChangeKind[];
};

export type FlowDiffDrawing = {
  readonly together: Drawing;
  readonly before: Drawing;
  readonly after: Drawing;
  /** In the order in which they are read: by rows from the top. */
  readonly changes: readonly NodeChangeSummary[];
};

type Versions = { readonly before: FlowNodes; readonly after: FlowNodes };

export function drawDiff(
  { before, after }: Versions,
  container: ContainerDiff,
  measureText: MeasureText,
): FlowDiffDrawing {
  const [old, current] = [before, after].map((nodes) => drawContainer(nodes, container.id, measureText));
  if (old === undefined || current === undefined) {
    throw new TypeError("unreachable");
  }
  const summaries = new Map(container.nodes.map((node) => [node.id, summarize(node, { before, after })]));
  const markedOld = mark(old.elements, current.elements, "removed", summaries);
  const markedNew = mark(current.elements, old.elements, "added", summaries);
  const together = superimpose(markedOld, markedNew);
  const places = new Map(together.map(({ id, kind, box }) => [kind === "wire" ? "" : id, box]));
  return {
    together: { container: container.id, elements: together, bounds: boundsOf(together) },
    before: { ...old, elements: markedOld },
    after: { ...current, elements: markedNew },
    changes: [...summaries.values()].toSorted((one, other) => byRow(places.get(one.id), places.get(other.id))),
  };
}

function summarize({ id, type, name, change, aspects }: NodeDiff, { before, after }: Versions): NodeChangeSummary {
  const node = after.get(id) ?? before.get(id);
  const label = node === undefined ? (name ?? id) : nameOf(node, after.get(id) === undefined ? before : after);
  return { id, type, name: label, kinds: kindsOf(change, aspects) };
}

function kindsOf(change: NodeChange, aspects: readonly NodeAspect[]): readonly ChangeKind[] {
  if (change === NodeChange.ADDED || change === NodeChange.REMOVED) {
    return [change === NodeChange.ADDED ? "added" : "removed"];
  }
  const kinds: ChangeKind[] = [];
  if (aspects.some((aspect) => !drawnAspects.has(aspect))) {
    kinds.push("changed");
  }
  if (aspects.includes(NodeAspect.POSITION) || aspects.includes(NodeAspect.CONTAINER)) {
    kinds.push("moved");
  }
  if (aspects.includes(NodeAspect.WIRES)) {
    kinds.push("rewired");
  }
  return kinds.length === 0 ? ["changed"] : kinds;
}

const drawnAspects: ReadonlySet<NodeAspect> = new Set([
  NodeAspect.POSITION,
  NodeAspect.CONTAINER,
  NodeAspect.WIRES,
  NodeAspect.ORDER,
]);

/** Marks the elements of one version. Elements that the other version lacks are marked with `otherwise`. */
function mark(
  elements: readonly Element[],
  others: readonly Element[],
  otherwise: "added" | "removed",
  summaries: ReadonlyMap<string, NodeChangeSummary>,
): readonly Element[] {
  const known = new Set(others.map(keyOf));
  return elements.map((element) => {
    const { kind, id } = element;
    if (kind === "link" || kind === "stub") {
      return element;
    }
    const isNode = kind !== "wire" && kind !== "port";
    const [first] = isNode ? (summaries.get(id)?.kinds ?? []).filter((each) => each !== "rewired") : [];
    const change = known.has(keyOf(element)) ? first : otherwise;
    return change === undefined ? element : { ...element, change };
  });
}

/** The new version, with what only the old one has below it. */
function superimpose(old: readonly Element[], current: readonly Element[]): readonly Element[] {
  const now = new Map(current.map((element) => [keyOf(element), element]));
  const bodies = new Map<string, NodeElement | JunctionElement>();
  for (const element of [...old, ...current]) {
    if (element.kind === "node" || element.kind === "junction") {
      bodies.set(element.id, element);
    }
  }
  const gone = old
    .filter((element) => element.change === "removed")
    .map((element) => (element.kind === "wire" ? reconnect(element, bodies) : element));
  const moves = old.flatMap((element) => {
    const end = now.get(keyOf(element));
    return end === undefined || element.kind === "wire" || element.kind === "group" ? [] : moveOf(element, end);
  });
  const layers: readonly ((element: Element) => boolean)[] = [
    ({ kind }) => kind === "group",
    ({ kind }) => kind === "wire",
    ({ kind }) => kind !== "group" && kind !== "wire",
  ];
  return [...layers.flatMap((isIn) => [...gone.filter(isIn), ...current.filter(isIn)]), ...moves];
}

/** A removed wire is drawn to where its ends are now. */
function reconnect(wire: WireElement, bodies: ReadonlyMap<string, NodeElement | JunctionElement>): WireElement {
  const [source, target] = [bodies.get(wire.from), bodies.get(wire.to)];
  if (source === undefined || target === undefined) {
    return { ...wire, change: "removed" };
  }
  const port = Number(wire.id.slice(wire.from.length + 1).split(":", 1)[0]);
  const outputs = source.kind === "node" ? Math.max(source.outputs, port + 1) : 1;
  return { ...drawWire("wire", source, port, outputs, target), change: "removed" };
}

/** A change of the label alone moves the sides, not the center. */
function moveOf(from: Element, to: Element): readonly MoveElement[] {
  const [start, end] = [centerOf(from.box), centerOf(to.box)];
  if (start.x === end.x && start.y === end.y) {
    return [];
  }
  const [left, top] = [Math.min(from.box.x, to.box.x), Math.min(from.box.y, to.box.y)];
  const right = Math.max(from.box.x + from.box.width, to.box.x + to.box.width);
  const bottom = Math.max(from.box.y + from.box.height, to.box.y + to.box.height);
  return [
    {
      kind: "move",
      id: to.id,
      box: { x: left, y: top, width: right - left, height: bottom - top },
      from: from.box,
      to: to.box,
    },
  ];
}

function keyOf({ kind, id }: Element): string {
  return `${kind} ${id}`;
}

function byRow(one: Box | undefined, other: Box | undefined): number {
  if (one === undefined || other === undefined) {
    return Number(one === undefined) - Number(other === undefined);
  }
  return Math.round(one.y / 60) - Math.round(other.y / 60) || one.x - other.x;
}
