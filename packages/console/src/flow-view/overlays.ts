import type { Box } from "./geometry.ts";
import type { Drawing, Element } from "./elements.ts";

export type NodeStatus = {
  readonly text?: string | undefined;
  /** A colour of Node-RED: red, green, yellow, blue or grey. */
  readonly fill?: string | undefined;
  readonly shape?: "dot" | "ring" | undefined;
};

export type Overlays = {
  readonly statuses: ReadonlyMap<string, NodeStatus>;
  readonly errors: ReadonlyMap<string, number>;
  readonly messages: ReadonlyMap<string, number>;
  readonly highlighted: ReadonlySet<string>;
  readonly selected: string | undefined;
};

export const noOverlays: Overlays = {
  statuses: new Map(),
  errors: new Map(),
  messages: new Map(),
  highlighted: new Set(),
  selected: undefined,
};

/** The room around the box of an element for its ports, button, badges, status and outline. */
export const surroundings = { left: 36, top: 16, right: 60, bottom: 24, statusWidth: 260 } as const;

export function paintedBox({ box, kind }: Element): Box {
  if (kind === "wire" || kind === "link") {
    return { x: box.x - 4, y: box.y - 4, width: box.width + 8, height: box.height + 8 };
  }
  const { left, top, right, bottom, statusWidth } = surroundings;
  return {
    x: box.x - left,
    y: box.y - top,
    width: Math.max(box.width + left + right, left + statusWidth),
    height: box.height + top + bottom,
  };
}

export function changedNodes(before: Overlays, after: Overlays): ReadonlySet<string> {
  const changed = new Set<string>();
  collectDifferences(before.statuses, after.statuses, isSameStatus, changed);
  collectDifferences(before.errors, after.errors, Object.is, changed);
  collectDifferences(before.messages, after.messages, Object.is, changed);
  for (const id of before.highlighted.symmetricDifference(after.highlighted)) {
    changed.add(id);
  }
  if (before.selected !== after.selected) {
    for (const id of [before.selected, after.selected]) {
      if (id !== undefined) {
        changed.add(id);
      }
    }
  }
  return changed;
}

/** The elements that belong to nodes: themselves, and the wires and links that are shown in another way if a node is selected. */
export function elementsOf(drawing: Drawing, ids: ReadonlySet<string>): readonly Element[] {
  return drawing.elements.filter((element) => {
    if (element.kind === "wire" || element.kind === "link") {
      return ids.has(element.from) || ids.has(element.to);
    }
    return ids.has(element.kind === "stub" ? element.of : element.id);
  });
}

function collectDifferences<T>(
  before: ReadonlyMap<string, T>,
  after: ReadonlyMap<string, T>,
  isSame: (one: T, other: T) => boolean,
  changed: Set<string>,
): void {
  if (before === after) {
    return;
  }
  for (const [id, value] of after) {
    const old = before.get(id);
    if (old === undefined || !isSame(old, value)) {
      changed.add(id);
    }
  }
  for (const id of before.keys()) {
    if (!after.has(id)) {
      changed.add(id);
    }
  }
}

function isSameStatus(one: NodeStatus, other: NodeStatus): boolean {
  return one.text === other.text && one.fill === other.fill && one.shape === other.shape;
}
