import { cp } from "node:fs/promises";
import { join } from "node:path";
import type { FlowNode } from "@flowgate/flows";

/** A tab on which GET `path` responds with the msg.payload that the function's code sets. */
export function endpoint(path: string, code: string): FlowNode[] {
  const id = (name: string) => `${path}-${name}`;
  return [
    { id: id("tab"), type: "tab", label: path },
    { id: id("in"), type: "http in", z: id("tab"), ...position, url: path, method: "get", wires: [[id("function")]] },
    functionNode(id("function"), { z: id("tab"), func: `${code}; return msg;`, wires: [[id("out")]] }),
    { id: id("out"), type: "http response", z: id("tab"), ...position, wires: [] },
  ];
}

// The runtime takes a node without coordinates for a configuration node.
const position = { x: 100, y: 100 };

export function functionNode(
  id: string,
  code: { z?: string; func?: string; initialize?: string; wires?: string[][] },
): FlowNode {
  return {
    id,
    type: "function",
    z: "",
    ...position,
    func: "",
    initialize: "",
    wires: [[]],
    outputs: 1,
    libs: [],
    ...code,
  };
}

/** The properties of each node on tab T. */
export function onTab(id: string): { id: string; z: string; x: number; y: number } {
  return { id, z: "T", ...position };
}

/** Sends one message to another node soon after the start. */
export function injectOnce(id: string, to: string): FlowNode {
  return { ...onTab(id), type: "inject", once: true, onceDelay: 0.1, props: [{ p: "payload" }], wires: [[to]] };
}

export function exec(id: string, command: string): FlowNode {
  return { ...onTab(id), type: "exec", command, addpay: "", append: "", useSpawn: "false", wires: [[], [], []] };
}

export function tab(id: string, properties: Partial<FlowNode> = {}): FlowNode {
  return { id, type: "tab", label: `tab ${id}`, ...properties };
}

/** Counts under its name, which must not be an id: a property whose value is a node's id makes it depend on that node. */
export function probe(id: string, z: string, properties: Partial<FlowNode> = {}): FlowNode {
  return { id, type: "probe", name: `the ${id}`, z, ...position, wires: [[]], ...properties };
}

export function configProbe(id: string, z?: string): FlowNode {
  return { id, type: "probe-config", name: `the ${id}`, ...(z !== undefined && { z }) };
}

/** Copies the probe nodes into a folder of modules, as npm would install them. */
export async function installProbe(modulesDir: string): Promise<void> {
  const source = new URL("fixtures/node-red-contrib-probe", import.meta.url);
  await cp(source, join(modulesDir, "node_modules", "node-red-contrib-probe"), { recursive: true });
}

/** Code that blocks the event loop for ever, without the CPU time that an empty loop would take from other tests. */
export const block = `for (const cell = new Int32Array(new SharedArrayBuffer(4)); ; ) Atomics.wait(cell, 0, 0, 10);`;

/** Code with which a function node gets access to `process`, since its vm does not isolate it. */
export const escape = `const host = util.inspect.constructor("return process")();`;
