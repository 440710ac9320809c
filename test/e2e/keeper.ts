import { cp } from "node:fs/promises";
import { join } from "node:path";
import type { Node } from "./flow-builders.ts";
import type { Service } from "./service.ts";

/** A node that stores its credentials, and a setting, when requests of its routes say so. */
export function keeper(id: string, properties: object = {}): Node {
  return { id, type: "keeper", z: "T", x: 100, y: 100, wires: [], ...properties };
}

/** Installs the type of that node in the runtime of a service, like npm. */
export async function installKeeper(dataDir: string): Promise<void> {
  const source = new URL("../fixtures/e2e/node-red-contrib-keeper", import.meta.url);
  await cp(source, join(dataDir, "modules", "node_modules", "node-red-contrib-keeper"), { recursive: true });
}

/** What a route of the node answers, such as `/keeper/renew`. */
export async function askKeeper(service: Service, path: string, query: Record<string, string> = {}): Promise<unknown> {
  return JSON.parse(await service.get(`${path}?${new URLSearchParams(query).toString()}`)) as unknown;
}
