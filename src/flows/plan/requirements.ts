import { isBuiltin } from "node:module";
import type { JsonValue } from "@bufbuild/protobuf";
import { Budget, sizeOf } from "../budget.ts";
import type { FlowNode } from "../configuration.ts";
import { subflowOf } from "../nodes.ts";

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

/** A module that nodes need, apart from those of Node.js itself. */
export type RequiredModule = {
  /** Its name as for npm, without a version. */
  readonly name: string;
  /** The version, or range of versions, if the flows name one. */
  readonly version: string | undefined;
  readonly nodeIds: readonly string[];
};

/**
 * Finds the modules that function nodes load (`libs`), and those that the editor recorded for the flows (`modules`). Throws
 * `limit_exceeded` if that exceeds the budget.
 */
export function findRequiredModules(
  flows: readonly FlowNode[],
  budget: Budget = new Budget(),
): readonly RequiredModule[] {
  const modules = new Map<string, { version: string | undefined; readonly nodeIds: Set<string> }>();
  for (const node of flows) {
    for (const { name, version } of modulesOf(node)) {
      const module = modules.get(name) ?? { version, nodeIds: new Set() };
      module.version ??= version;
      modules.set(name, module);
      if (!module.nodeIds.has(node.id)) {
        module.nodeIds.add(node.id);
        budget.addOutput(sizeOf(node.id));
      }
    }
  }
  return Array.from(modules, ([name, { version, nodeIds }]) => ({ name, version, nodeIds: [...nodeIds] }));
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
