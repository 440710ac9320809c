import { readdirSync } from "node:fs";
import { join } from "node:path";
import { readManifest } from "../manifest.ts";
import type { LoadModules } from "../messages.ts";
import { readNodeDependencies, sortByNodeDependencies } from "../node-dependencies.ts";
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
    const isLoaded = (name: string): boolean => registry.getModuleInfo(name) !== null;
    const added = findNodeModules(join(modulesDir, "node_modules")).filter(
      ({ name, version }) => permitsModule(moduleLists, name, version) && !isLoaded(name),
    );
    for (const { name, dependencies } of sortModules(added, warn)) {
      const missing = dependencies.filter((each) => !isLoaded(each));
      if (missing.length > 0) {
        warn(`[${name}] its nodes need those of packages that are not loaded: ${missing.join(", ")}`);
        continue;
      }
      await registry.addModule(name).catch((error: unknown) => warn(`[${name}] ${String(error)}`));
      const { nodes = [] } = registry.getModuleInfo(name) ?? {};
      for (const { id, err } of nodes.filter((each) => each.err !== undefined)) {
        warn(`[${id}] ${String(err)}`);
      }
    }
  } finally {
    listeners.forEach((listener) => util.events.on("type-registered", listener));
  }
}

type NodeModule = { readonly name: string; readonly version: unknown; readonly dependencies: readonly string[] };

/**
 * Those that others need come first: the flow runtime would look for what is not loaded yet once for each way to it, and never end in a circle.
 */
function sortModules(modules: readonly NodeModule[], warn: (message: string) => void): readonly NodeModule[] {
  const byName = new Map(modules.map((each) => [each.name, each]));
  const { sorted, circle } = sortByNodeDependencies(
    new Map(modules.map(({ name, dependencies }) => [name, dependencies])),
  );
  if (circle !== undefined) {
    warn(
      `[${circle[0]}] is not loaded, nor are packages that need it: its nodes need themselves: ${circle.join(" → ")}`,
    );
  }
  return sorted.flatMap((name) => byName.get(name) ?? []);
}

/** The packages that define node types. */
function findNodeModules(folder: string): NodeModule[] {
  const names = readNames(folder).filter((name) => !name.startsWith("."));
  return names
    .flatMap((name) => (name.startsWith("@") ? readNames(join(folder, name)).map((each) => `${name}/${each}`) : [name]))
    .map((name) => ({ name, manifest: readManifest(join(folder, name, "package.json")) }))
    .filter(({ manifest }) => typeof manifest["node-red"] === "object")
    .map(({ name, manifest }) => ({
      name,
      version: manifest["version"],
      dependencies: readNodeDependencies(manifest) ?? [],
    }));
}

function readNames(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch {
    return [];
  }
}
