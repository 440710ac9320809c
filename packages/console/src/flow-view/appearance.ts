import { safeColor } from "./theme.ts";
import {
  readPortCount,
  readStatusPort,
  readSubflowPorts,
  readText,
  type FlowNode,
  type FlowNodes,
} from "./flow-nodes.ts";
import { isIconName, type IconName } from "./icons.ts";

export type Appearance = {
  readonly color: string;
  /** Undefined: the first letter of the type. */
  readonly icon: IconName | undefined;
  readonly iconSide: "left" | "right";
  readonly inputs: number;
  readonly outputs: number;
  readonly button: "press" | "on" | "off" | undefined;
};

type Row = readonly [color: string, icon: IconName, inputs: 0 | 1, outputs: number, side?: "right"];

const palette: ReadonlyMap<string, Row> = new Map<string, Row>([
  ["inject", ["#a6bbcf", "inject", 0, 1]],
  ["debug", ["#87a980", "debug", 1, 0, "right"]],
  ["complete", ["#c0edc0", "alert", 0, 1]],
  ["catch", ["#e49191", "alert", 0, 1]],
  ["status", ["#94c1d0", "status", 0, 1]],
  ["link in", ["#dddddd", "link-out", 0, 1]],
  ["link call", ["#dddddd", "link-call", 1, 1]],
  ["link out", ["#dddddd", "link-out", 1, 0, "right"]],
  ["comment", ["#ffffff", "comment", 0, 0]],
  ["function", ["#fdd0a2", "function", 1, 1]],
  ["switch", ["#e2d96e", "switch", 1, 1]],
  ["change", ["#e2d96e", "swap", 1, 1]],
  ["range", ["#e2d96e", "range", 1, 1]],
  ["template", ["#f3b567", "template", 1, 1]],
  ["delay", ["#e6e0f8", "timer", 1, 1]],
  ["trigger", ["#e6e0f8", "trigger", 1, 1]],
  ["exec", ["#e9967a", "cog", 1, 3]],
  ["rbe", ["#e2d96e", "rbe", 1, 1]],
  ["mqtt in", ["#d8bfd8", "bridge", 0, 1]],
  ["mqtt out", ["#d8bfd8", "bridge", 1, 0, "right"]],
  ["http in", ["#e7e7ae", "globe", 0, 1]],
  ["http response", ["#e7e7ae", "globe", 1, 0, "right"]],
  ["http request", ["#e7e7ae", "globe", 1, 1]],
  ["websocket in", ["#d7d7a0", "globe", 0, 1]],
  ["websocket out", ["#d7d7a0", "globe", 1, 0, "right"]],
  ["tcp in", ["#c0c0c0", "bridge-dash", 0, 1]],
  ["tcp out", ["#c0c0c0", "bridge-dash", 1, 0, "right"]],
  ["tcp request", ["#c0c0c0", "bridge-dash", 1, 1]],
  ["udp in", ["#c0c0c0", "bridge-dash", 0, 1]],
  ["udp out", ["#c0c0c0", "bridge-dash", 1, 0, "right"]],
  ["csv", ["#debd5c", "parser-csv", 1, 1]],
  ["html", ["#debd5c", "parser-html", 1, 1]],
  ["json", ["#debd5c", "parser-json", 1, 1]],
  ["xml", ["#debd5c", "parser-xml", 1, 1]],
  ["yaml", ["#debd5c", "parser-yaml", 1, 1]],
  ["split", ["#e2d96e", "split", 1, 1]],
  ["join", ["#e2d96e", "join", 1, 1]],
  ["sort", ["#e2d96e", "sort", 1, 1]],
  ["batch", ["#e2d96e", "batch", 1, 1]],
  ["file", ["#deb887", "file-out", 1, 1]],
  ["file in", ["#deb887", "file-in", 1, 1]],
  ["watch", ["#deb887", "watch", 0, 1]],
]);

/** The colour of nodes of other modules, whose own colours are not part of a configuration. */
const neutralColor = "#d6dde3";
const subflowColor = "#ddaa99";

export function appearanceOf(node: FlowNode, nodes: FlowNodes, isTarget: boolean): Appearance {
  const subflow = nodes.subflowOf(node);
  if (subflow !== undefined) {
    const status = readStatusPort(subflow) === undefined ? 0 : 1;
    return {
      color: safeColor(readText(subflow.properties, "color"), subflowColor),
      icon: ownIcon(node) ?? ownIcon(subflow) ?? "subflow",
      iconSide: "left",
      inputs: Math.min(readSubflowPorts(subflow, "in").length, 1),
      outputs: readSubflowPorts(subflow, "out").length + status,
      button: undefined,
    };
  }
  const row = palette.get(node.type);
  if (row === undefined) {
    const outputs = Math.max(readPortCount(node.properties, "outputs") ?? 0, node.wires.length);
    const inputs = readPortCount(node.properties, "inputs") ?? (isTarget || outputs === 0 ? 1 : 0);
    return {
      color: neutralColor,
      icon: ownIcon(node),
      iconSide: inputs > 0 && outputs === 0 ? "right" : "left",
      inputs: Math.min(inputs, 1),
      outputs,
      button: undefined,
    };
  }
  const [color, icon, inputs, outputs, side = "left"] = row;
  return {
    color,
    icon: ownIcon(node) ?? (node.type === "link out" && node.properties["mode"] === "return" ? "link-return" : icon),
    iconSide: side,
    inputs: Math.min(readPortCount(node.properties, "inputs") ?? inputs, 1),
    outputs: node.type === "link out" ? 0 : (readPortCount(node.properties, "outputs") ?? outputs),
    button: buttonOf(node),
  };
}

export function showsLabel(node: FlowNode): boolean {
  return node.hasLabel ?? (node.type !== "link in" && node.type !== "link out");
}

function buttonOf({ type, properties }: FlowNode): Appearance["button"] {
  if (type === "inject") {
    return "press";
  }
  if (type === "debug" && properties["tosidebar"] !== false) {
    return properties["active"] === false ? "off" : "on";
  }
  return undefined;
}

function ownIcon({ properties }: FlowNode): IconName | undefined {
  const [, name] = /^node-red\/([a-z-]+)\.(?:svg|png)$/.exec(readText(properties, "icon")) ?? [];
  return name === undefined ? undefined : name === "white-globe" ? "globe" : isIconName(name) ? name : undefined;
}
