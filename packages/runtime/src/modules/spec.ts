import { join } from "node:path";
import { type Fields, isFields } from "@flowgate/base/fields";
import { readManifest } from "@flowgate/base/manifest";

/** A module in a package.json: an npm package, and an exact version or a range of versions. */
export type ModuleSpec = { readonly name: string; readonly version: string | undefined };

const namePart = String.raw`[a-z0-9][a-z0-9._~-]*`;
const namePattern = new RegExp(`^(?:@${namePart}/)?${namePart}$`, "i");
const rangePattern = /^[~^<>=*\w][\w.+~^<>=* |-]*$/;
/** npm takes these for files. */
const filePattern = /\.(?:tgz|tar|tar\.gz)$/i;

/** Whether npm takes it for the name of a package in a registry. */
export function isModuleName(name: string): boolean {
  return name.length <= 214 && namePattern.test(name) && !filePattern.test(name);
}

/** Whether npm takes it for a version, a range or a tag of a package in a registry, and not for a file, a URL or a repository. */
export function isVersionRange(range: string): boolean {
  return range.length <= 100 && rangePattern.test(range) && !filePattern.test(range);
}

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

export function formatModule({ name, version }: ModuleSpec): string {
  if (version === undefined) {
    return name;
  }
  const spec = `${name}@${version}`;
  return /^[\w@%+=:,./-]+$/.test(spec) ? spec : `'${spec}'`;
}
