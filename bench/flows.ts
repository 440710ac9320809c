import type { Service } from "./server.ts";

/** A configuration of function nodes as an editor exports it, one tab for each hundred, about 200 bytes a node. */
export function functionFlows(nodes: number): FlowNode[] {
  const tabs = Array.from({ length: Math.ceil(nodes / 100) }, (_, index) => ({
    id: nodeId(0, index),
    type: "tab",
    label: `Line ${index}`,
    disabled: false,
    info: "",
  }));
  const functions = Array.from({ length: nodes - tabs.length }, (_, index) => ({
    id: nodeId(1, index),
    type: "function",
    z: nodeId(0, index % tabs.length),
    name: `step ${index}`,
    func: `msg.payload += ${index};\nreturn msg;`,
    outputs: 1,
    x: 140 + (index % 10) * 120,
    y: 80 + Math.floor(index / 10) * 40,
    wires: [[nodeId(1, (index + tabs.length) % (nodes - tabs.length))]],
  }));
  return [...tabs, ...functions];
}

export type FlowNode = { readonly id: string; readonly [property: string]: unknown };

/** 16 hexadecimal digits, as the editor makes them. */
function nodeId(kind: number, index: number): string {
  return (BigInt(kind * 1_000_000 + index + 1) * 0x9e37_79b9_7f4a_7c15n).toString(16).slice(-16).padStart(16, "0");
}

/** Resolves when the runtime runs them. */
export async function deploy(
  { url, authorization }: Service,
  body: string,
  deploymentType: "full" | "nodes",
): Promise<void> {
  const response = await fetch(`${url}/flows`, {
    method: "POST",
    headers: {
      authorization,
      "content-type": "application/json",
      "service-api-version": "v2",
      "service-deployment-type": deploymentType,
    },
    body,
  });
  const answer = await response.text();
  if (response.status !== 200) {
    throw new Error(`POST /flows: ${response.status} ${answer}`);
  }
}
