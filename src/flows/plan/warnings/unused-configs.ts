import type { JsonValue } from "@bufbuild/protobuf";
import type { FlowNode } from "../../configuration.ts";
import { receivesMessages, roleOf } from "../../node-role.ts";
import type { Finding } from "./finding.ts";

/** Finds configuration nodes whose id no other node contains. The node of the global environment needs no user. */
export function findUnusedConfigs(flows: readonly FlowNode[]): readonly Finding[] {
  const configs = flows.filter(
    (node) => roleOf(node) === "config" && !receivesMessages(node) && node.type !== "global-config",
  );
  const unused = new Map(configs.map((node) => [node.id, node]));
  for (const { id, z: _container, ...properties } of flows) {
    visitTexts(properties, (text) => {
      if (text !== id) {
        unused.delete(text);
      }
    });
  }
  return Array.from(unused.values(), (node) => ({ node, message: "no node uses this configuration node" }));
}

function visitTexts(value: JsonValue | undefined, visit: (text: string) => void): void {
  if (typeof value === "string") {
    visit(value);
  } else if (typeof value === "object" && value !== null) {
    for (const each of Object.values(value)) {
      visitTexts(each, visit);
    }
  }
}
