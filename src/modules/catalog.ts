import { readFile, stat } from "node:fs/promises";
import { join } from "node:path";
import { isWithin, readDisabledModules, readModules } from "../runtime/folders.ts";
import { readManifest } from "../runtime/manifest.ts";
import { readLockfile, uploadOf } from "./lockfile.ts";

/** A module in the folder of added modules. */
export type InstalledModule = {
  readonly name: string;
  /** The exact version; undefined if its package.json does not have one. */
  readonly version: string | undefined;
  /** The hash of its tarball (Subresource Integrity); undefined if the lockfile does not have it. */
  readonly integrity: string | undefined;
  /** The file of its tarball in the folder `uploads`, if it was uploaded. */
  readonly upload: string | undefined;
  readonly isEnabled: boolean;
  /** The node types that it defines. */
  readonly types: readonly string[];
};

const maxFiles = 500;
const maxTemplateBytes = 1024 * 1024;
const maxTypes = 1_000;
const maxTypeChars = 200;

/** Knows which modules are installed in a folder. Reads it again when another process has changed it, such as a command. */
export class ModuleCatalog {
  readonly #dir: string;
  #signature: string | undefined;
  #modules: Promise<readonly InstalledModule[]> | undefined;

  constructor(modulesDir: string) {
    this.#dir = modulesDir;
  }

  /** Sorted by name. */
  async list(): Promise<readonly InstalledModule[]> {
    const signature = await signModules(this.#dir);
    if (this.#modules === undefined || signature !== this.#signature) {
      this.#signature = signature;
      this.#modules = readInstalledModules(this.#dir);
    }
    return this.#modules;
  }
}

/** Returns a text that changes with the modules of a folder: an installation replaces the folder, and with it these files. */
export async function signModules(modulesDir: string): Promise<string> {
  const stats = await Promise.all(
    ["package.json", "package-lock.json"].map((name) => stat(join(modulesDir, name)).catch(() => undefined)),
  );
  return stats.map((each) => `${each?.ino} ${each?.mtimeMs} ${each?.size}`).join(", ");
}

/** Reads the modules of a folder, sorted by name. What is malformed is left out. */
export async function readInstalledModules(modulesDir: string): Promise<InstalledModule[]> {
  const packages = new Map(readLockfile(modulesDir).map((each) => [each.path, each]));
  const disabled = new Set(readDisabledModules(modulesDir));
  const modules = await Promise.all(
    readModules(modulesDir).map(async ({ name, version }) => ({
      name,
      version,
      integrity: packages.get(`node_modules/${name}`)?.integrity,
      upload: uploadOf(packages.get(`node_modules/${name}`)?.resolved),
      isEnabled: !disabled.has(name),
      types: await readTypes(join(modulesDir, "node_modules", name)),
    })),
  );
  return modules.toSorted((one, other) => (one.name < other.name ? -1 : 1));
}

/** The files of a module that define node types, by their names, as its package.json has them. */
export function readNodeFiles(moduleDir: string): ReadonlyMap<string, string> {
  const section = readManifest(join(moduleDir, "package.json"))["node-red"];
  const { nodes } = Object(section) as { readonly nodes?: unknown };
  const files = Object.entries(Object(nodes) as Record<string, unknown>);
  return new Map(files.filter((entry): entry is [string, string] => typeof entry[1] === "string").slice(0, maxFiles));
}

/** The node types of a module: as Node-RED finds them, in the templates beside its files. Nothing is executed. */
async function readTypes(moduleDir: string): Promise<string[]> {
  const paths = readNodeFiles(moduleDir)
    .values()
    .map((file) => join(moduleDir, file.replace(/\.c?js$/, ".html")))
    .filter((path) => isWithin(moduleDir, path));
  const types = new Set<string>();
  // One after another: a module can name many large ones, and one many times.
  for (const path of new Set(paths)) {
    for (const type of findTypes(await readTemplate(path))) {
      types.add(type);
    }
    if (types.size >= maxTypes) {
      break;
    }
  }
  return [...types].slice(0, maxTypes);
}

async function readTemplate(path: string): Promise<string> {
  const found = await stat(path).catch(() => undefined);
  return found?.isFile() === true && found.size <= maxTemplateBytes ? readFile(path, "utf8").catch(() => "") : "";
}

/** Finds the `data-template-name` of script elements, in time that is linear in the length of the text. */
function findTypes(template: string): string[] {
  return template
    .matchAll(/data-template-name\s{0,9}=\s{0,9}['"]([^'"]{1,200})['"]/gi)
    .filter(({ index }) => {
      const before = template.slice(Math.max(0, index - maxTypeChars), index);
      return /^<script [^>]*$/i.test(before.slice(Math.max(0, before.lastIndexOf("<"))));
    })
    .map(([, type = ""]) => type)
    .toArray();
}
