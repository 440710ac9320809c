import { cp } from "node:fs/promises";
import { join } from "node:path";
import type { FlowNode } from "../../src/flows/configuration.ts";

/** A tab on which GET `path` answers with what the function's code leaves in msg.payload. */
export function endpoint(path: string, code: string): FlowNode[] {
  const id = (name: string) => `${path}-${name}`;
  return [
    { id: id("tab"), type: "tab", label: path },
    { id: id("in"), type: "http in", z: id("tab"), ...place, url: path, method: "get", wires: [[id("function")]] },
    functionNode(id("function"), { z: id("tab"), func: `${code}; return msg;`, wires: [[id("out")]] }),
    { id: id("out"), type: "http response", z: id("tab"), ...place, wires: [] },
  ];
}

// A node without a place is a configuration node to the runtime.
const place = { x: 100, y: 100 };

export function functionNode(
  id: string,
  code: { z?: string; func?: string; initialize?: string; wires?: string[][] },
): FlowNode {
  return {
    id,
    type: "function",
    z: "",
    ...place,
    func: "",
    initialize: "",
    wires: [[]],
    outputs: 1,
    libs: [],
    ...code,
  };
}

/** What each node on tab T has. */
export function placed(id: string): { id: string; z: string; x: number; y: number } {
  return { id, z: "T", ...place };
}

/** Sends one message to the other node soon after the start. */
export function injectOnce(id: string, to: string): FlowNode {
  return { ...placed(id), type: "inject", once: true, onceDelay: 0.1, props: [{ p: "payload" }], wires: [[to]] };
}

export function exec(id: string, command: string): FlowNode {
  return { ...placed(id), type: "exec", command, addpay: "", append: "", useSpawn: "false", wires: [[], [], []] };
}

export function tab(id: string, properties: Partial<FlowNode> = {}): FlowNode {
  return { id, type: "tab", label: `tab ${id}`, ...properties };
}

/** It reports under its name, which must not be an id: a property whose value is one makes the node depend on that. */
export function probe(id: string, z: string, properties: Partial<FlowNode> = {}): FlowNode {
  return { id, type: "probe", name: `the ${id}`, z, ...place, wires: [[]], ...properties };
}

export function configProbe(id: string, z?: string): FlowNode {
  return { id, type: "probe-config", name: `the ${id}`, ...(z !== undefined && { z }) };
}

/** Installs the probe nodes into a userDir, as npm would. */
export async function installProbe(userDir: string): Promise<void> {
  const source = new URL("../fixtures/runtime/node-red-contrib-probe", import.meta.url);
  await cp(source, join(userDir, "node_modules", "node-red-contrib-probe"), { recursive: true });
}

/** How a function node gets hold of `process`, for its vm is no sandbox. */
export const escape = `const host = util.inspect.constructor("return process")();`;
