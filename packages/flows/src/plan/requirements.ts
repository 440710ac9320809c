import type { JsonValue } from "../json.ts";
import { Budget, sizeOf } from "../budget.ts";
import type { FlowNode } from "../configuration.ts";
import { containerIdOf, subflowOf } from "../nodes.ts";

/** A node type that is not installed, or the instance of a subflow that does not exist. The runtime then starts nothing. */
export type MissingType = { readonly type: string; readonly nodeIds: readonly string[] };

/** `knownTypes` are the installed types; undefined if they are not known, which finds missing subflows only. */
export function findMissingTypes(
  flows: readonly FlowNode[],
  knownTypes: ReadonlySet<string> | undefined,
): readonly MissingType[] {
  const subflows = new Set(flows.filter(({ type }) => type === "subflow").map(({ id }) => id));
  const isMissing = (node: FlowNode): boolean => {
    if (node.type === "tab" || node.type === "subflow" || node.type === "group") {
      return false;
    }
    const subflow = subflowOf(node);
    return subflow === undefined ? knownTypes?.has(node.type) === false : !subflows.has(subflow);
  };
  const missing = Map.groupBy(flows.filter(isMissing), ({ type }) => type);
  return Array.from(missing, ([type, nodes]) => ({ type, nodeIds: nodes.map(({ id }) => id) }));
}

/** A module that nodes need, apart from Node.js's own. */
export type RequiredModule = {
  /** Its name as for npm, without a version. */
  readonly name: string;
  /** The version, or range of versions, if the flows name one. */
  readonly version: string | undefined;
  readonly nodeIds: readonly string[];
};

/**
 * Finds the modules that function nodes load (`libs`), and the modules that the editor recorded for the flows
 * (`modules`). Throws `limit_exceeded` if the result exceeds the budget.
 */
export function findRequiredModules(
  flows: readonly FlowNode[],
  budget: Budget = new Budget(),
): readonly RequiredModule[] {
  const modules = new Map<string, { version: string | undefined; readonly nodeIds: Set<string> }>();
  for (const node of flows) {
    for (const { name, version } of modulesOf(node)) {
      const module = modules.getOrInsertComputed(name, () => ({ version, nodeIds: new Set() }));
      module.version ??= version;
      if (!module.nodeIds.has(node.id)) {
        module.nodeIds.add(node.id);
        budget.addOutput(sizeOf(node.id));
      }
    }
  }
  return Array.from(modules, ([name, { version, nodeIds }]) => ({ name, version, nodeIds: [...nodeIds] }));
}

/** The requirements of flows: node types, and modules by their names. */
export type FlowNeeds = { readonly types: ReadonlySet<string>; readonly modules: ReadonlySet<string> };

export function findNeeds(flows: readonly FlowNode[]): FlowNeeds {
  return {
    types: new Set(flows.map(({ type }) => type)),
    modules: new Set(flows.flatMap((node) => modulesOf(node).map(({ name }) => name))),
  };
}

/** True if flows need a module: by one of its node types, or by its name. */
export function needsModule(
  { types, modules }: FlowNeeds,
  module: { readonly name: string; readonly types: readonly string[] },
): boolean {
  return modules.has(module.name) || module.types.some((type) => types.has(type));
}

/** The effect of a deployment on a module. `upgraded`: another version is installed. */
type ModuleState = "missing" | "present" | "upgraded";

/** A module that is installed, or that a deployment names. */
export type KnownModule = {
  readonly name: string;
  readonly state: ModuleState;
  /** The version that the flows get: exact if it is installed, otherwise as the deployment names it. */
  readonly version: string;
  readonly installedVersion: string | undefined;
  /** The node types that it defines, as far as they are known. */
  readonly types: readonly string[];
  /** True if the deployment names it. */
  readonly isDeclared: boolean;
};

/** A module that the flows of a deployment need, or that the deployment names. */
export type PlannedModule = RequiredModule &
  Pick<KnownModule, "state" | "installedVersion"> & {
    /** The ids of the tabs and subflows with these nodes. */
    readonly flows: readonly string[];
  };

/** Finds out which modules a deployment needs, and installs. Throws `limit_exceeded` if that exceeds the budget. */
export function planModules(
  flows: readonly FlowNode[],
  known: readonly KnownModule[],
  budget: Budget = new Budget(),
): readonly PlannedModule[] {
  const byType = new Map(known.flatMap((module) => module.types.map((type) => [type, module.name] as const)));
  const users = Map.groupBy(
    flows.filter(({ type }) => byType.has(type)),
    ({ type }) => byType.get(type) ?? "",
  );
  const required = new Map(findRequiredModules(flows, budget).map((module) => [module.name, module]));
  const byName = new Map(known.map((module) => [module.name, module]));
  const nodes = new Map(flows.map((node) => [node.id, node]));
  const names = new Set([
    ...required.keys(),
    ...known.filter(({ name, isDeclared }) => isDeclared || users.has(name)).map(({ name }) => name),
  ]);
  return Array.from(names, (name) => {
    const module = byName.get(name);
    const ids = new Set([...(required.get(name)?.nodeIds ?? []), ...(users.get(name) ?? []).map(({ id }) => id)]);
    ids.forEach((id) => budget.addOutput(sizeOf(id)));
    const containers = new Set(Array.from(ids, (id) => containerIdOf(nodes.get(id) as FlowNode)));
    return {
      name,
      version: module?.version ?? required.get(name)?.version,
      nodeIds: [...ids],
      state: module?.state ?? "missing",
      installedVersion: module?.installedVersion,
      flows: [...containers].filter((id) => id !== ""),
    };
  });
}

type Module = Pick<RequiredModule, "name" | "version">;

function modulesOf(node: FlowNode): Module[] {
  if (node["d"] === true) {
    return [];
  }
  if (node.type === "global-config") {
    return Object.entries(Object(node["modules"]) as Record<string, JsonValue>).map(([name, version]) => ({
      name,
      version: typeof version === "string" ? version : undefined,
    }));
  }
  const libs = node.type === "function" && Array.isArray(node["libs"]) ? node["libs"] : [];
  return libs.map(parseLib).filter((module) => module !== undefined);
}

/**
 * As the runtime parses it (`parseModuleName` in @node-red/registry): `@scope/name/file@1.2`, where the file and the version are optional.
 * Unlike there, a scope begins with the first of several "@", which is the same match, without a search from each of them.
 */
function parseLib(lib: JsonValue): Module | undefined {
  const spec = typeof lib === "object" && lib !== null && "module" in lib ? lib.module : lib;
  const [, name, version] =
    (typeof spec === "string" && /((?:(?<!@)@[^/]+\/)?[^/@]+)(?:\/[^/@]+)?(?:@([^]+))?/.exec(spec)) || [];
  return name === undefined || isBuiltin(name) ? undefined : { name, version };
}

/** Modules of Node.js are never installed. Outside Node.js, only names with `node:` are recognized. */
function isBuiltin(name: string): boolean {
  const modules = globalThis.process?.getBuiltinModule?.("node:module");
  return modules?.isBuiltin(name) ?? name.startsWith("node:");
}
