import type { Module, Node } from "@flowgate/client";

export type MissingType = {
  readonly type: string;
  readonly nodes: number;
  /** The installed module that defines it, but is disabled. */
  readonly disabledModule: string | undefined;
};

/** `nodes` belong to the active flows; empty if they are not known. */
export function describeMissing(
  types: readonly string[],
  modules: readonly Pick<Module, "name" | "enabled" | "types">[],
  nodes: readonly Pick<Node, "type">[],
): readonly MissingType[] {
  const counts = Map.groupBy(nodes, ({ type }) => type);
  return types.map((type) => ({
    type,
    nodes: counts.get(type)?.length ?? 0,
    disabledModule: modules.find((module) => !module.enabled && module.types.includes(type))?.name,
  }));
}

export type NamedModule = { readonly name: string; readonly version: string };

/**
 * The modules that the flows name and that are not installed: Node-RED's editor records the modules of exported nodes
 * in a node of the type `global-config`. It does not record which types they define.
 */
export function findNamedModules(
  nodes: readonly Pick<Node, "type" | "properties">[],
  modules: readonly Pick<Module, "name">[],
): readonly NamedModule[] {
  const installed = new Set(modules.map(({ name }) => name));
  const named = new Map<string, string>();
  for (const { type, properties } of nodes) {
    const recorded = type === "global-config" ? properties?.["modules"] : undefined;
    if (typeof recorded === "object" && recorded !== null && !Array.isArray(recorded)) {
      for (const [name, version] of Object.entries(recorded)) {
        if (!installed.has(name)) {
          named.set(name, typeof version === "string" ? version : "");
        }
      }
    }
  }
  return Array.from(named, ([name, version]) => ({ name, version }));
}
