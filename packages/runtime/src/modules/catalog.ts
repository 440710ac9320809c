import { stat } from "node:fs/promises";
import { join } from "node:path";
import { CachedRead } from "@flowgate/base/cached-read";
import { type Disabled, readDisabled } from "./disabled.ts";
import { isWithin } from "@flowgate/base/directories";
import { readModules } from "./spec.ts";
import { readCertainManifest, readManifest } from "@flowgate/base/manifest";
import { coreModule, coreSetOf, findCoreDir, scanCore } from "./core-nodes.ts";
import { readLockfile, uploadOf } from "./lockfile.ts";
import { readText } from "@flowgate/base/read-text";
import { readSubflows } from "./subflows.ts";

/** A file of a module that defines node types. */
export type InstalledSet = { readonly name: string; readonly types: readonly string[]; readonly isEnabled: boolean };

/** A module in the folder of added modules. */
export type InstalledModule = {
  readonly name: string;
  /** The exact version; undefined if its package.json does not have one. */
  readonly version: string | undefined;
  /** The hash of its tarball (Subresource Integrity); undefined if the lockfile does not have it. */
  readonly integrity: string | undefined;
  /** The file of its tarball in the folder `uploads`, if it was uploaded. */
  readonly upload: string | undefined;
  /** True if anything of it is to be loaded. */
  readonly isEnabled: boolean;
  /** The node types that it defines. */
  readonly types: readonly string[];
  readonly sets: readonly InstalledSet[];
};

const maxFiles = 500;
const maxTemplateBytes = 1024 * 1024;
const maxTypes = 1_000;
const maxTypeChars = 200;

/** Knows which modules are installed in a folder. Reads it again when another process has changed it, such as a command. */
export class ModuleCatalog {
  readonly #dir: string;
  readonly #modules: CachedRead<readonly InstalledModule[]>;

  constructor(modulesDir: string) {
    this.#dir = modulesDir;
    this.#modules = new CachedRead(() => readInstalledModules(modulesDir));
  }

  /** Sorted by name. */
  async list(): Promise<readonly InstalledModule[]> {
    return this.#modules.get(await signModules(this.#dir));
  }
}

/** Returns a text that changes with the modules of a folder: each change of them replaces these files. */
export async function signModules(modulesDir: string): Promise<string> {
  const stats = await Promise.all(
    ["package.json", "package-lock.json"].map((name) => stat(join(modulesDir, name)).catch(() => undefined)),
  );
  return stats.map((each) => `${each?.ino} ${each?.mtimeMs} ${each?.size}`).join(", ");
}

/** Reads the modules of a folder, sorted by name. What is malformed is left out. */
export async function readInstalledModules(modulesDir: string): Promise<InstalledModule[]> {
  const packages = new Map(readLockfile(modulesDir).map((each) => [each.path, each]));
  const disabled = readDisabled(modulesDir);
  const modules = await Promise.all(
    readModules(modulesDir, readCertainManifest).map(async ({ name, version }) => ({
      name,
      version,
      integrity: packages.get(`node_modules/${name}`)?.integrity,
      upload: uploadOf(packages.get(`node_modules/${name}`)?.resolved),
      ...withState(name, await readSets(join(modulesDir, "node_modules", name)), disabled),
    })),
  );
  return modules.toSorted((one, other) => (one.name < other.name ? -1 : 1));
}

/** The files of a module that define node types, by their names, as its package.json has them. */
export function readNodeFiles(moduleDir: string): ReadonlyMap<string, string> {
  const section = readCertainManifest(join(moduleDir, "package.json"))["node-red"];
  const { nodes } = Object(section) as { readonly nodes?: unknown };
  const files = Object.entries(Object(nodes) as Record<string, unknown>);
  return new Map(files.filter((entry): entry is [string, string] => typeof entry[1] === "string").slice(0, maxFiles));
}

/** Node-RED's own nodes, as a module. */
export async function readCoreModule(modulesDir: string): Promise<InstalledModule> {
  const dir = findCoreDir();
  const { version } = readManifest(join(dir, "package.json"));
  const sets = coreSets ?? (await readCoreSets(dir));
  // Each has types, unless it could not be read.
  coreSets = sets.length > 0 && sets.every(({ types }) => types.length > 0) ? sets : undefined;
  return {
    name: coreModule,
    version: typeof version === "string" ? version : undefined,
    integrity: undefined,
    upload: undefined,
    ...withState(coreModule, sets, readDisabled(modulesDir)),
  };
}

type DeclaredSet = Omit<InstalledSet, "isEnabled">;

/** They do not change. Undefined until all were read. */
let coreSets: readonly DeclaredSet[] | undefined;

async function readCoreSets(dir: string): Promise<readonly DeclaredSet[]> {
  const files = await scanCore(dir);
  const sets = await readEach(
    dir,
    files.map((file) => [coreSetOf(file), file] as const),
  );
  // It has no dialog.
  return sets.map((set) => (set.name === "junction" ? { ...set, types: ["junction"] } : set));
}

function withState(
  module: string,
  declared: readonly DeclaredSet[],
  disabled: Disabled,
): Pick<InstalledModule, "isEnabled" | "types" | "sets"> {
  const isListed = !disabled.modules.includes(module);
  const sets = declared.map((set) => ({
    ...set,
    isEnabled: isListed && !disabled.sets.includes(`${module}/${set.name}`),
  }));
  return {
    isEnabled: isListed && (sets.length === 0 || sets.some(({ isEnabled }) => isEnabled)),
    types: [...new Set(declared.flatMap(({ types }) => types))],
    sets,
  };
}

function readSets(moduleDir: string): Promise<DeclaredSet[]> {
  const files = readNodeFiles(moduleDir)
    .entries()
    .map(([name, file]) => [name, join(moduleDir, file)] as const)
    .filter(([, path]) => isWithin(moduleDir, path));
  return readEach(moduleDir, files);
}

/** The node types in files: as Node-RED finds them, in the templates beside them, and of subflows. Nothing is executed. */
async function readEach(
  moduleDir: string,
  files: Iterable<readonly [name: string, path: string]>,
): Promise<DeclaredSet[]> {
  const sets: DeclaredSet[] = [];
  const known = new Map<string, readonly string[]>();
  let count = 0;
  // One after another: a module can name many large ones, and one many times.
  for (const [name, path] of files) {
    const types = known.get(path) ?? (count >= maxTypes ? [] : await readTypes(moduleDir, path));
    known.set(path, types);
    const kept = types.slice(0, maxTypes - count);
    count += kept.length;
    sets.push({ name, types: kept });
  }
  return sets;
}

async function readTypes(moduleDir: string, program: string): Promise<string[]> {
  const subflows = await readSubflows(moduleDir, program);
  const template = await readText(program.replace(/\.c?js$/, ".html"), maxTemplateBytes);
  return [...new Set([...findTypes(template ?? ""), ...subflows.map(({ type }) => type)])];
}

/** Finds the `data-template-name` of script elements, in time that is linear in the length of the text. */
function findTypes(template: string): string[] {
  const types = template
    .matchAll(/data-template-name\s{0,9}=\s{0,9}['"]([^'"]{1,200})['"]/gi)
    .filter(({ index }) => {
      const before = template.slice(Math.max(0, index - maxTypeChars), index);
      return /^<script [^>]*$/i.test(before.slice(Math.max(0, before.lastIndexOf("<"))));
    })
    .map(([, type = ""]) => type);
  return [...new Set(types)];
}
