import { readdirSync } from "node:fs";
import { join } from "node:path";
import { readManifest } from "../manifest.ts";
import type { LoadModules } from "../messages.ts";
import type { NodeRed } from "./node-red.ts";

type Parts = Pick<NodeRed, "util" | "registry" | "permitsModule" | "permitFunctionModules">;

/**
 * Loads the modules that were added to the folder, as the flow runtime does at its start. What can't be loaded is reported by `warn`. Flows
 * that wait for their types are not started: a deployment does that, so that its result is known.
 */
export async function loadAddedModules(
  { util, registry, permitsModule, permitFunctionModules }: Parts,
  { modulesDir, moduleLists, functionLists }: LoadModules,
  warn: (message: string) => void,
): Promise<void> {
  permitFunctionModules(functionLists);
  // Only the start of flows that wait for types listens.
  const listeners = util.events.listeners("type-registered");
  util.events.removeAllListeners("type-registered");
  try {
    for (const { name, version } of findNodeModules(join(modulesDir, "node_modules"))) {
      if (permitsModule(moduleLists, name, version) && registry.getModuleInfo(name) === null) {
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

/** The packages that define node types. */
function findNodeModules(folder: string): { readonly name: string; readonly version: unknown }[] {
  const names = readNames(folder).filter((name) => !name.startsWith("."));
  return names
    .flatMap((name) => (name.startsWith("@") ? readNames(join(folder, name)).map((each) => `${name}/${each}`) : [name]))
    .map((name) => ({ name, manifest: readManifest(join(folder, name, "package.json")) }))
    .filter(({ manifest }) => typeof manifest["node-red"] === "object")
    .map(({ name, manifest }) => ({ name, version: manifest["version"] }));
}

function readNames(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch {
    return [];
  }
}
