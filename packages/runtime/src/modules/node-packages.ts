import { existsSync } from "node:fs";
import { join } from "node:path";
import { type Fields, isFields } from "@flowgate/base/fields";
import { FlowgateError } from "@flowgate/flows/errors";
import { isNodeRedName } from "@flowgate/base/module-names";
import { isWithin } from "@flowgate/base/directories";
import { readManifest } from "@flowgate/base/manifest";
import { readNodeDependencies, sortByNodeDependencies } from "./node-dependencies.ts";
import { readNodeFiles } from "./catalog.ts";
import { explainReserved } from "./core-nodes.ts";
import type { LockedPackage } from "./lockfile.ts";

/** Throws if Node-RED could not load the module, or would load files from outside of it. */
export function assertWellFormed(tree: string, name: string): void {
  const folder = join(tree, "node_modules", name);
  const found = readManifest(join(folder, "package.json"))["name"];
  if (found !== name) {
    throw malformed(name, "its package.json does not have this name");
  }
  for (const [set, file] of readNodeFiles(folder)) {
    const path = join(folder, file);
    if (!isWithin(folder, path) || !existsSync(path)) {
      throw malformed(name, `it has no file for its nodes ${JSON.stringify(set.slice(0, 100))}`);
    }
  }
}

/**
 * Throws if Node-RED would load the nodes of one of these packages in place of its own, or of another package, or fail since their
 * description is malformed.
 */
export function assertLoadable(tree: string, packages: readonly LockedPackage[]): void {
  for (const { name } of packages.filter(isTop)) {
    const { name: ownName, "node-red": section } = readManifest(join(tree, "node_modules", name, "package.json"));
    // As Node-RED finds them: null is one too.
    const isLoaded = typeof section === "object";
    const reserved = explainReserved(name);
    // Many packages depend on Node-RED itself, which defines no nodes.
    if (reserved !== undefined && (isLoaded || !isNodeRedName(name))) {
      throw new FlowgateError("module_failed", `${reserved}. The modules remain as they were`);
    }
    if (isLoaded && ownName !== name) {
      throw malformed(name, "its package.json does not have this name");
    }
    const problem = isLoaded ? findSectionProblem(section) : undefined;
    if (problem !== undefined) {
      throw malformed(name, `in its package.json, ${problem}`);
    }
  }
}

/** Finds entries in the section `node-red` of a package.json that Node-RED would throw for or misread. */
function findSectionProblem(section: object | null): string | undefined {
  if (section === null || Array.isArray(section)) {
    return "node-red must be an object";
  }
  const { nodes, plugins, dependencies } = section as Fields;
  for (const [key, files] of Object.entries({ nodes: nodes ?? {}, plugins: plugins ?? {} })) {
    if (!isFields(files) || !Object.values(files).every((file) => typeof file === "string")) {
      return `node-red.${key} must be an object whose values are paths of files`;
    }
  }
  const isList = readNodeDependencies({ "node-red": section }) !== undefined;
  return isList || dependencies === null ? undefined : "node-red.dependencies must be an array of names of packages";
}

/** Throws if the nodes of one of these packages need themselves, by those of others: Node-RED would not end to load them. */
export function assertNoCircle(
  tree: string,
  packages: readonly LockedPackage[],
  changed: readonly LockedPackage[],
): void {
  const found = packages.filter(isTop).map(({ name }) => {
    const manifest = readManifest(join(tree, "node_modules", name, "package.json"));
    return [name, readNodeDependencies(manifest) ?? []] as const;
  });
  const { circle } = sortByNodeDependencies(new Map(found));
  const first = circle?.find((name) => changed.some((each) => isTop(each) && each.name === name));
  if (circle !== undefined && first !== undefined) {
    throw malformed(first, `its nodes need themselves, as node-red.dependencies says: ${circle.join(" → ")}`);
  }
}

/** Node-RED finds no others. */
function isTop({ path, name }: LockedPackage): boolean {
  return path === `node_modules/${name}`;
}

export function malformed(name: string, problem: string): FlowgateError {
  return new FlowgateError(
    "module_failed",
    `${name} is malformed: ${problem}. It is not installed, and the modules remain as they were`,
  );
}
