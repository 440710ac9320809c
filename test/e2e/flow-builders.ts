import { cp } from "node:fs/promises";
import { join } from "node:path";

export type Node = { readonly id: string; readonly type: string; readonly [property: string]: unknown };

// The runtime treats a node without coordinates as a configuration node.
const place = { x: 100, y: 100 };

export function tab(id: string): Node {
  return { id, type: "tab", label: `tab ${id}` };
}

/** A tab on which GET `path` responds with the msg.payload that the function's code sets. */
export function endpoint(path: string, code: string): Node[] {
  const z = `tab of ${path}`;
  return [
    tab(z),
    { id: `${path} in`, type: "http in", z, ...place, url: path, method: "get", wires: [[`${path} function`]] },
    functionNode(`${path} function`, { z, func: `${code}; return msg;`, wires: [[`${path} out`]] }),
    { id: `${path} out`, type: "http response", z, ...place, wires: [] },
  ];
}

export function functionNode(
  id: string,
  code: { z: string; func?: string; initialize?: string; wires?: string[][]; [property: string]: unknown },
): Node {
  return { id, type: "function", ...place, func: "", initialize: "", wires: [[]], outputs: 1, libs: [], ...code };
}

/** A debug node that shows msg.payload in the sidebar. */
export function debugNode(id: string, z: string): Node {
  const output = { active: true, tosidebar: true, console: false, complete: "payload", targetType: "msg" };
  return { id, type: "debug", z, ...place, name: "", ...output, wires: [] };
}

/** A node that counts its own starts, in On Start; GET /starts returns all counts. */
export function counting(id: string, z: string, properties: Record<string, unknown> = {}): Node {
  const initialize = `const starts = global.get("starts") ?? {};
    starts["${id}"] = (starts["${id}"] ?? 0) + 1;
    global.set("starts", starts);`;
  return functionNode(id, { z, initialize, func: "return msg;", ...properties });
}

export const startsEndpoint = endpoint("/starts", `msg.payload = global.get("starts") ?? {}`);

/** The names whose count has changed. */
export function started(before: Record<string, unknown> = {}, after: Record<string, unknown> = {}): string[] {
  return Object.keys(after).filter((name) => after[name] !== before[name]);
}

/** A node whose credentials are in GET /reporter, by its name. */
export function reporter(id: string, z: string, properties: Record<string, unknown> = {}): Node {
  return { id, type: "reporter", name: `the ${id}`, z, ...place, wires: [[]], ...properties };
}

/** Installs the type of that node in the runtime of a service, like npm. */
export async function installReporter(dataDir: string): Promise<void> {
  const source = new URL("../fixtures/e2e/node-red-contrib-reporter", import.meta.url);
  const target = join(dataDir, "modules", "node_modules", "node-red-contrib-reporter");
  await cp(source, target, { recursive: true });
}
