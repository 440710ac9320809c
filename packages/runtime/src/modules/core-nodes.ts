import { readdir } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { isNodeRedName } from "@flowgate/base/module-names";
import { resolvePackage } from "@flowgate/base/resolve-package";

/** The name under which Node-RED lists its own nodes. */
export const coreModule = "node-red";

/** Why no package of this name can be added, whatever is in it; undefined: one can. */
export function explainReserved(name: string): string | undefined {
  if (isNodeRedName(name)) {
    return `${name} can't be added: the names node-red and @node-red/… belong to Node-RED itself, whose nodes it would replace`;
  }
  if (/(?:^|\/)package\.json$/i.test(name)) {
    return `${name} can't be added: Node-RED would take it for the description of the folder that all modules are in`;
  }
  return undefined;
}

/** The folder of Node-RED's own nodes. */
export function findCoreDir(): string {
  return dirname(resolvePackage("@node-red/nodes", import.meta.url));
}

/** The name of the set in a file of its own nodes. */
export function coreSetOf(file: string): string {
  return basename(file).replace(/^\d+-|\.c?js$/g, "");
}

/** The programs below a folder that have a template beside them. */
export async function scanCore(dir: string): Promise<string[]> {
  const entries = (await readdir(dir, { withFileTypes: true })).toSorted((one, other) =>
    one.name < other.name ? -1 : 1,
  );
  const names = new Set(entries.map(({ name }) => name));
  const files: string[] = [];
  for (const entry of entries) {
    const path = join(dir, entry.name);
    if (entry.isFile() && /\.c?js$/.test(entry.name) && names.has(entry.name.replace(/\.c?js$/, ".html"))) {
      files.push(path);
    } else if (entry.isDirectory() && !/^(?:\..*|lib|icons|node_modules|test|locales)$/.test(entry.name)) {
      files.push(...(await scanCore(path)));
    }
  }
  return files;
}
