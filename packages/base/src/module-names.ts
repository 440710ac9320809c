/** A module in a package.json: an npm package, and an exact version or a range of versions. */
export type ModuleSpec = { readonly name: string; readonly version: string | undefined };

const namePart = String.raw`[a-z0-9][a-z0-9._~-]*`;
const namePattern = new RegExp(`^(?:@${namePart}/)?${namePart}$`, "i");
const rangePattern = /^[~^<>=*\w][\w.+~^<>=* |-]*$/;
/** npm takes these for files. */
const filePattern = /\.(?:tgz|tar|tar\.gz)$/i;

/** True if npm takes it for the name of a package in a registry. */
export function isModuleName(name: string): boolean {
  return name.length <= 214 && namePattern.test(name) && !filePattern.test(name);
}

/** True if npm takes it for a version, a range or a tag of a package in a registry, and not for a file, a URL or a repository. */
export function isVersionRange(range: string): boolean {
  return range.length <= 100 && rangePattern.test(range) && !filePattern.test(range);
}

/** As an argument of `flowgate module install`. */
export function formatModule({ name, version }: ModuleSpec): string {
  if (version === undefined) {
    return name;
  }
  const spec = `${name}@${version}`;
  return /^[\w@%+=:,./-]+$/.test(spec) ? spec : `'${spec}'`;
}

/** True if it is the name of Node-RED, or of one of its parts. Some file systems ignore the case of letters. */
export function isNodeRedName(name: string): boolean {
  return /^(?:node-red$|@node-red\/)/i.test(name);
}
