import { readdirSync } from "node:fs";
import { join } from "node:path";
import { readManifest } from "../manifest.ts";
import type { LoadModules } from "../messages.ts";
import type { NodeRed } from "./node-red.ts";

type Parts = Pick<NodeRed, "util" | "registry" | "permitFunctionModules">;

/**
 * Loads the modules that were added to the folder, as the flow runtime does at its start. What can't be loaded is reported by `warn`. Flows
 * that wait for their types are not started: a deployment does that, so that its result is known.
 */
export async function loadAddedModules(
  { util, registry, permitFunctionModules }: Parts,
  { modulesDir, functionLists }: LoadModules,
  warn: (message: string) => void,
): Promise<void> {
  permitFunctionModules(functionLists);
  // Only the start of flows that wait for types listens.
  const listeners = util.events.listeners("type-registered");
  util.events.removeAllListeners("type-registered");
  try {
    for (const name of findNodeModules(join(modulesDir, "node_modules"))) {
      if (registry.getModuleInfo(name) === null) {
        await registry.addModule(name).catch((error: unknown) => warn(`[${name}] ${String(error)}`));
        const { nodes = [] } = registry.getModuleInfo(name) ?? {};
        for (const { id, err } of nodes.filter((each) => each.err !== undefined)) {
          warn(`[${id}] ${String(err)}`);
        }
      }
    }
  } finally {
    listeners.forEach((listener) => util.events.on("type-registered", listener));
  }
}

/** The packages that define node types, by their names. */
function findNodeModules(folder: string): string[] {
  const names = readNames(folder).filter((name) => !name.startsWith("."));
  return names
    .flatMap((name) => (name.startsWith("@") ? readNames(join(folder, name)).map((each) => `${name}/${each}`) : [name]))
    .filter((name) => typeof readManifest(join(folder, name, "package.json"))["node-red"] === "object");
}

function readNames(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch {
    return [];
  }
}
