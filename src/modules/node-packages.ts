import { existsSync } from "node:fs";
import { join } from "node:path";
import { FlowgateError } from "../errors.ts";
import { isWithin } from "../runtime/folders.ts";
import { readManifest } from "../runtime/manifest.ts";
import { readNodeFiles } from "./catalog.ts";
import { explainReserved, isNodeRedName } from "./core-nodes.ts";
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

/** Throws if Node-RED would load the nodes of one of these packages in place of its own, or of another package. */
export function assertOwnNames(tree: string, packages: readonly LockedPackage[]): void {
  // It finds no others.
  for (const { name } of packages.filter(({ path, name }) => path === `node_modules/${name}`)) {
    const { name: ownName, "node-red": section } = readManifest(join(tree, "node_modules", name, "package.json"));
    const isLoaded = typeof section === "object";
    const reserved = explainReserved(name);
    // Many packages depend on Node-RED itself, which defines no nodes.
    if (reserved !== undefined && (isLoaded || !isNodeRedName(name))) {
      throw new FlowgateError("module_failed", `${reserved}. The modules remain as they were`);
    }
    if (isLoaded && ownName !== name) {
      throw malformed(name, "its package.json does not have this name");
    }
  }
}

export function malformed(name: string, problem: string): FlowgateError {
  return new FlowgateError(
    "module_failed",
    `${name} is malformed: ${problem}. It is not installed, and the modules remain as they were`,
  );
}
