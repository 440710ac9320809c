import { join } from "node:path";
import { type Fields, isFields } from "@flowgate/base/fields";
import { readManifest } from "@flowgate/base/manifest";
import { type ModuleSpec, isModuleName, isVersionRange } from "@flowgate/base/module-names";

/** How many modules a folder can have. Others in its package.json are not listed. */
export const maxModules = 200;

/**
 * The modules in the package.json of a folder. Names and versions that npm would not take from a registry are left out. `read` reads a
 * package.json.
 */
export function readModules(directory: string, read: (path: string) => Fields = readManifest): ModuleSpec[] {
  const { dependencies } = read(join(directory, "package.json"));
  const entries = isFields(dependencies) ? Object.entries(dependencies) : [];
  return entries
    .filter(([name]) => isModuleName(name))
    .slice(0, maxModules)
    .map(([name, range]) => {
      const installed = read(join(directory, "node_modules", name, "package.json"))["version"] ?? range;
      return { name, version: typeof installed === "string" && isVersionRange(installed) ? installed : undefined };
    });
}
