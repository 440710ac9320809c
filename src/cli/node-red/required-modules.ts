import type { FlowNode } from "../../flows/configuration.ts";
import { findRequiredModules } from "../../flows/plan/requirements.ts";
import { formatModule, isModuleName, isVersionRange } from "../../runtime/folders.ts";

/** A module that the flows need besides Node-RED, as in package.json. */
export type Module = {
  readonly name: string;
  readonly version: string | undefined;
  /** The node types of the flows that it provides; undefined if they are not known. */
  readonly types?: readonly string[] | undefined;
};

/**
 * Finds the modules of a user folder that flows need. `manifest` is its package.json; `registry` is its .config.nodes.json, which
 * lists the node types of each module. A module that it does not list may be needed.
 */
export function findModules(flows: readonly FlowNode[], manifest: unknown, registry: unknown): Module[] {
  const used = new Set(flows.map(({ type }) => type));
  const findTypes = (name: string): string[] | undefined => {
    const sets = Object.values(membersOf(membersOf(membersOf(registry)[name])["nodes"]));
    const provided = new Set(sets.flatMap((set) => membersOf(set)["types"]));
    return provided.size === 0 ? undefined : [...used].filter((type) => provided.has(type));
  };
  const modules = new Map<string, Omit<Module, "name">>();
  for (const [name, version] of Object.entries(membersOf(membersOf(manifest)["dependencies"]))) {
    const types = findTypes(name);
    if (types?.length !== 0) {
      modules.set(name, { version: typeof version === "string" ? version : undefined, types });
    }
  }
  for (const { name, version } of findRequiredModules(flows)) {
    // Functions load it as well.
    modules.set(name, { version: modules.get(name)?.version ?? version });
  }
  return Array.from(modules, ([name, module]) => ({ name, ...module })).toSorted((a, b) => (a.name < b.name ? -1 : 1));
}

function membersOf(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null ? (value as Record<string, unknown>) : {};
}

/** The command that installs modules for the flows. What npm does not take from a registry is left out. */
export function formatInstall(modules: readonly Module[]): string {
  const specs = modules
    .filter(({ name }) => isModuleName(name))
    .map(({ name, version }) =>
      formatModule({ name, version: version && isVersionRange(version) ? version : undefined }),
    );
  return ["flowgate", "module", "install", ...specs].join(" ");
}
