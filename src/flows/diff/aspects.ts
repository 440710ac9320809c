import type { FlowNode } from "../configuration.ts";
import { hasPosition } from "../node-role.ts";
import type { Aspect, PropertyChange } from "./flows-diff.ts";

/** The part of a node that a changed property belongs to. */
export function aspectOf({ path }: PropertyChange, before: FlowNode, after: FlowNode): Aspect {
  const [key] = path;
  switch (key) {
    case "x":
    case "y":
      // With both or without: the coordinates distinguish configuration nodes from others.
      return hasPosition(before) && hasPosition(after) ? "position" : "properties";
    case "w":
    case "h":
      return after.type === "group" ? "position" : "properties";
    case "z":
      return "container";
    case "g":
      return "group";
    case "nodes":
      return after.type === "group" ? "group" : "properties";
    case "wires":
      return "wires";
    case "links":
      return after.type.startsWith("link ") ? "wires" : "properties";
    case "in":
    case "out":
    case "status":
      return after.type === "subflow" ? aspectOfPort(path) : "properties";
    default:
      return "properties";
  }
}

/** `in[0].wires[0].id`, `out[0].x`, `status.y`, or a whole list of ports. */
function aspectOfPort(path: PropertyChange["path"]): Aspect {
  const member = path.find((step, index) => index > 0 && typeof step === "string");
  return member === "x" || member === "y" ? "position" : "wires";
}
