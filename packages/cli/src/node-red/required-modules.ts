import { type FlowNode, findRequiredModules } from "@flowgate/flows";
import { formatModule, isModuleName, isNodeRedName, isVersionRange } from "@flowgate/base/module-names";

/** A module that the flows need besides Node-RED, as in package.json. */
export type Module = {
  readonly name: string;
  readonly version: string | undefined;
  /** The node types of the flows that it provides; undefined if they are not known. */
  readonly types?: readonly string[] | undefined;
  /** True if function nodes load it, and no types of the flows are known to be in it. */
  readonly forFunctions: boolean;
};

export type RequiredModules = {
  readonly modules: readonly Module[];
  /** Modules that are in no registry. */
  readonly notes: readonly string[];
};

/**
 * Finds the modules of a user folder that flows need. `manifests` are its package.json, and that of its project before; `registry` is its
 * .config.nodes.json, which lists the node types of each module. A module that it does not list may be needed.
 */
export function findModules(
  flows: readonly FlowNode[],
  manifests: readonly unknown[],
  registry: unknown,
): RequiredModules {
  const used = new Set(flows.map(({ type }) => type));
  const findTypes = (name: string): string[] | undefined => {
    const sets = Object.values(membersOf(membersOf(membersOf(registry)[name])["nodes"]));
    const provided = new Set(sets.flatMap((set) => membersOf(set)["types"]));
    return provided.size === 0 ? undefined : [...used].filter((type) => provided.has(type));
  };
  const modules = new Map<string, Omit<Module, "name">>();
  for (const [name, version] of manifests.flatMap((each) =>
    Object.entries(membersOf(membersOf(each)["dependencies"])),
  )) {
    const types = findTypes(name);
    if (types?.length !== 0) {
      modules.set(name, { version: typeof version === "string" ? version : undefined, types, forFunctions: false });
    }
  }
  for (const { name, version } of findRequiredModules(flows)) {
    const { types, version: listed } = modules.get(name) ?? {};
    // Functions load it as well.
    modules.set(name, { version: listed ?? version, types, forFunctions: types === undefined });
  }
  // Node-RED itself is there.
  const found = Array.from(modules, ([name, module]): Module => ({ name, ...module }))
    .filter(({ name }) => !isNodeRedName(name))
    .toSorted((one, other) => (one.name < other.name ? -1 : 1));
  const isInstallable = ({ name, version = "" }: Module): boolean =>
    isModuleName(name) && (version === "" || isVersionRange(version));
  return {
    modules: found.filter(isInstallable),
    notes: found
      .filter((each) => !isInstallable(each))
      .map(
        ({ name }) =>
          `${JSON.stringify(name)} does not come from a registry: run npm pack where it is, and flowgate module install FILE.tgz`,
      ),
  };
}

function membersOf(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null ? (value as Record<string, unknown>) : {};
}

/** The command that installs modules for the flows. */
export function formatInstall(modules: readonly Module[]): string {
  return ["flowgate", "module", "install", ...modules.map(formatModule)].join(" ");
}
