import { readdirSync } from "node:fs";
import { join } from "node:path";
import { hasCode } from "@flowgate/base/error-code";
import { splitSetId } from "../modules/disabled.ts";
import { readCertainManifest } from "@flowgate/base/manifest";
import type { LoadModules } from "../messages.ts";
import type { ModuleLists } from "@flowgate/base/module-rules";
import { readNodeDependencies, sortByNodeDependencies } from "../modules/node-dependencies.ts";
import type { NodeRed } from "./node-red.ts";

type Parts = Pick<NodeRed, "registry" | "holdWaitingFlows" | "permitsModule" | "permitFunctionModules" | "eachNode"> & {
  /** Replaces the lists of the modules that may be loaded. */
  readonly permitModules: (lists: ModuleLists) => void;
};

/** The name under which Node-RED lists its own nodes. */
const coreModule = "node-red";

/** Loads modules, and sets of nodes that were enabled, into a flow runtime that runs, and takes those from it that were disabled. */
export class ModuleLoader {
  readonly #parts: Parts;
  readonly #warn: (message: string) => void;
  /** Which modules function nodes may load. */
  #functionLists: ModuleLists;
  /** The types that only sets have that are disabled. Their constructors remain in the registry. */
  #hidden: ReadonlySet<string> = new Set();
  /** Why sets could not be loaded that were added or enabled last. */
  #errors: string[] = [];

  /** Modules that can't be loaded are reported by `warn`. */
  constructor(parts: Parts, functionLists: ModuleLists, warn: (message: string) => void) {
    this.#parts = parts;
    this.#functionLists = functionLists;
    this.#warn = warn;
    const { registry } = parts;
    const { get } = registry;
    // It knows which set a type is of only if it reads the templates of the editor.
    registry.get = (type) => (this.#hidden.has(type) ? null : get(type));
  }

  /** Resolves with false if only a new process can do it: the flows use what was disabled, or code of it remains that matters. */
  async load(message: LoadModules): Promise<boolean> {
    const { registry, holdWaitingFlows, permitsModule, permitModules, permitFunctionModules } = this.#parts;
    const { modulesDir, moduleLists, functionLists } = message;
    const found = findNodeModules(join(modulesDir, "node_modules")).filter(({ name, version }) =>
      permitsModule(moduleLists, name, version),
    );
    const names = new Set([coreModule, ...found.map(({ name }) => name)]);
    const disabled = new Set(message.disabledSets);
    const isWanted = (id: string): boolean => !disabled.has(id) && names.has(splitSetId(id).module);
    const known = registry.getNodeList();
    const disabling = known.filter(({ id, enabled }) => enabled && !isWanted(id));
    if (this.#havePlugins(names) || this.#isUsed(typesOf(disabling), functionLists)) {
      return false;
    }
    this.#functionLists = functionLists;
    permitModules(moduleLists);
    permitFunctionModules(functionLists);
    this.#errors = [];
    using _ = holdWaitingFlows();
    for (const { id } of disabling) {
      await registry.disableNode(id);
    }
    for (const { id } of known.filter(({ id, enabled }) => !enabled && isWanted(id))) {
      const { err } = await registry.enableNode(id);
      this.#reportError(id, err);
    }
    const added = found.filter(({ name }) => registry.getModuleInfo(name) === null);
    for (const module of sortModules(added, this.#warn)) {
      await this.#add(module, message.disabledSets);
    }
    const disabledTypes = typesOf(registry.getNodeList(({ enabled }) => !enabled));
    this.#hidden = disabledTypes.difference(
      typesOf(registry.getNodeList(({ enabled, err }) => enabled && err === undefined)),
    );
    return !this.#errors.some((error) => disabledTypes.has(registeredType(error)));
  }

  async #add({ name, dependencies }: NodeModule, disabledSets: readonly string[]): Promise<void> {
    const { registry } = this.#parts;
    const missing = dependencies.filter((each) => registry.getModuleInfo(each) === null);
    if (missing.length > 0) {
      this.#warn(`[${name}] its nodes need those of packages that are not loaded: ${missing.join(", ")}`);
      return;
    }
    const sets = disabledSets.map(splitSetId).flatMap(({ module, set }) => (module === name ? (set ?? []) : []));
    if (sets.length > 0) {
      // As if it had been read from the settings at the start.
      const nodes = sets.map((set) => [set, { name: set, module: name, types: [], enabled: false }] as const);
      registry.getModuleList()[name] = { name, nodes: Object.fromEntries(nodes) };
    }
    await registry.addModule(name).catch((error: unknown) => this.#warn(`[${name}] ${String(error)}`));
    const info = registry.getModuleInfo(name);
    if (info === null) {
      delete registry.getModuleList()[name];
    }
    info?.nodes.forEach(({ id, err }) => this.#reportError(id, err));
  }

  #reportError(id: string, err: Error | string | undefined): void {
    if (err !== undefined) {
      this.#errors.push(String(err));
      this.#warn(`[${id}] ${String(err)}`);
    }
  }

  /** True if other modules than these have plugins, which can't be given up. */
  #havePlugins(wanted: ReadonlySet<string>): boolean {
    const modules = Object.entries(this.#parts.registry.getModuleList());
    return modules.some(([name, { plugins = {} }]) => !wanted.has(name) && Object.keys(plugins).length > 0);
  }

  /** True if the flows have nodes of these types, or function nodes with modules that these lists do not permit any more. */
  #isUsed(types: ReadonlySet<string>, lists: ModuleLists): boolean {
    const { eachNode, permitsModule } = this.#parts;
    const isLost = (module: string): boolean =>
      permitsModule(this.#functionLists, module, undefined) && !permitsModule(lists, module, undefined);
    let isUsed = false;
    eachNode(({ type, libs }) => {
      isUsed ||= types.has(type) || (Array.isArray(libs) && libs.some((lib) => isLost(moduleOf(lib))));
    });
    return isUsed;
  }
}

function typesOf(sets: readonly { readonly types: readonly string[] }[]): Set<string> {
  return new Set(sets.flatMap(({ types }) => types));
}

/** The type that the registry already has, by the error for another set that registers it; empty for other errors. */
function registeredType(error: string): string {
  const [, type = ""] = /^(?:Error: )?(.+) already registered$/s.exec(error) ?? [];
  return type;
}

/** The package of an entry in the Setup tab of a function node, without a version and a path in it. */
function moduleOf(lib: unknown): string {
  const { module } = Object(lib) as { readonly module?: unknown };
  const [name = ""] = /^(?:@[^/@]+\/)?[^/@]+/.exec(String(module)) ?? [];
  return name;
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
    .map((name) => ({ name, manifest: readCertainManifest(join(folder, name, "package.json")) }))
    .filter(({ manifest }) => typeof manifest["node-red"] === "object")
    .map(({ name, manifest }) => ({
      name,
      version: manifest["version"],
      dependencies: readNodeDependencies(manifest) ?? [],
    }));
}

/** Throws if they can't be read now: what is not found would be given up. */
function readNames(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch (error) {
    if (hasCode(error, "ENOENT", "ENOTDIR")) {
      return [];
    }
    throw error;
  }
}
