import type { GroupElement, JunctionElement, MeasureText, NodeElement } from "./elements.ts";
import { isRecord, readGroupBox, readText, type FlowNode } from "./flow-nodes.ts";
import { grow, measures, union, type Box } from "./geometry.ts";
import { safeColor } from "./theme.ts";
import { labelLines } from "./labels.ts";

/** The groups of a tab, outer ones first. Each surrounds its members, as Node-RED computes it when it opens a tab. */
export function drawGroups(
  placed: readonly FlowNode[],
  bodies: ReadonlyMap<string, NodeElement | JunctionElement>,
  isTabDisabled: boolean,
  measureText: MeasureText,
): readonly GroupElement[] {
  const groups = new Map(placed.filter(({ type }) => type === "group").map((group) => [group.id, group]));
  const members = new Map<string, FlowNode[]>();
  for (const node of placed) {
    if (node.group !== undefined && groups.has(node.group)) {
      const siblings = members.get(node.group);
      if (siblings === undefined) {
        members.set(node.group, [node]);
      } else {
        siblings.push(node);
      }
    }
  }
  const drawn = new Map<string, GroupElement>();
  for (const group of groups.values()) {
    drawGroup(group, { members, bodies, isTabDisabled, measureText }, drawn, new Set());
  }
  // A group is complete before the group around it.
  return [...drawn.values()].toReversed();
}

type Context = {
  readonly members: ReadonlyMap<string, readonly FlowNode[]>;
  readonly bodies: ReadonlyMap<string, NodeElement | JunctionElement>;
  readonly isTabDisabled: boolean;
  readonly measureText: MeasureText;
};

/** More than any real nesting; protects the stack from arbitrary input. */
const maxDepth = 50;

/** `open`: the groups that are being drawn; a group that contains itself is ignored in its own box. */
function drawGroup(
  group: FlowNode,
  context: Context,
  drawn: Map<string, GroupElement>,
  open: ReadonlySet<string>,
): Box | undefined {
  const done = drawn.get(group.id);
  if (done !== undefined || open.has(group.id) || open.size === maxDepth) {
    return done?.box;
  }
  const boxes: Box[] = [];
  for (const member of context.members.get(group.id) ?? []) {
    if (member.type === "group") {
      const box = drawGroup(member, context, drawn, new Set([...open, group.id]));
      boxes.push(...(box === undefined ? [] : [grow(box, measures.group.margin)]));
    } else {
      const body = context.bodies.get(member.id);
      boxes.push(...(body === undefined ? [] : [grow(boxWithButton(body), measures.group.margin)]));
    }
  }
  const { hasLabel, ...style } = groupStyle(group);
  const label = hasLabel && group.name !== "" ? labelLines(group.name) : [];
  const element: GroupElement = {
    kind: "group",
    id: group.id,
    box: groupBox(group, union(boxes), label, style.labelPosition, context.measureText),
    ...style,
    label,
    isDisabled: context.isTabDisabled,
  };
  drawn.set(group.id, element);
  return element.box;
}

function groupBox(
  group: FlowNode,
  content: Box | undefined,
  label: readonly string[],
  labelPosition: string,
  measureText: MeasureText,
): Box {
  const { minimum, line } = measures.group;
  const { x, y, width, height } = content ??
    readGroupBox(group) ?? { ...(group.position ?? { x: 0, y: 0 }), width: minimum, height: minimum };
  const isTop = labelPosition.startsWith("n");
  const room = label.length === 0 ? 0 : (label.length - 1) * line + (isTop ? 0 : 8);
  return {
    x,
    y: isTop && content !== undefined ? y - room : y,
    width: Math.max(width, ...label.map((text) => measureText(text) + 8)),
    height: content === undefined ? height : height + room,
  };
}

function boxWithButton(element: NodeElement | JunctionElement): Box {
  const { box } = element;
  if (element.kind === "junction" || element.button === undefined) {
    return box;
  }
  return { ...box, x: element.iconSide === "right" ? box.x : box.x - 20, width: box.width + 20 };
}

function groupStyle({
  properties,
}: FlowNode): Pick<
  GroupElement,
  "stroke" | "strokeOpacity" | "fill" | "fillOpacity" | "labelColor" | "labelPosition"
> & { readonly hasLabel: boolean } {
  const style = isRecord(properties["style"]) ? properties["style"] : {};
  const color = (name: string): string | undefined => {
    const text = readText(style, name);
    return text === "" ? undefined : safeColor(text, "") || undefined;
  };
  const opacity = (name: string): number => {
    const value = Number(readText(style, name) || 1);
    return value >= 0 && value <= 1 ? value : 1;
  };
  const position = readText(style, "label-position");
  return {
    stroke: color("stroke"),
    strokeOpacity: opacity("stroke-opacity"),
    fill: color("fill"),
    fillOpacity: opacity("fill-opacity"),
    labelColor: color("color"),
    labelPosition: /^[ns][we]?$/.test(position) ? position : "nw",
    hasLabel: style["label"] === true,
  };
}
