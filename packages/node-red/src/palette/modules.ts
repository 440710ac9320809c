import { createRequire } from "node:module";
import { resolvePackage } from "@flowgate/base/resolve-package";
import { glob, readdir, stat } from "node:fs/promises";
import { basename, dirname, extname, join } from "node:path";
import semver from "semver";
import { type Fields, isFields } from "@flowgate/base/fields";
import { coreModule, coreSetOf, scanCore } from "../../../../src/modules/core-nodes.ts";
import { isAllowed } from "../../../../src/modules/policy.ts";
import { readSubflows } from "../../../../src/modules/subflows.ts";
import type { Disabled } from "../../../../src/runtime/disabled.ts";
import { isModuleName, isWithin, readModules } from "../../../../src/runtime/folders.ts";
import { readManifest } from "../../../../src/runtime/manifest.ts";
import type { ModuleLists } from "../../../../src/runtime/messages.ts";
import type { CatalogFiles } from "./catalogs.ts";
import { nothingUnlessScarce, readText } from "@flowgate/base/read-text";
import { type Template, parseTemplate } from "./template.ts";

/** Where modules of nodes are, and which of them are loaded. */
export type PaletteSource = {
  /** That of `@node-red/nodes`. */
  readonly coreDir: string;
  /** The version of Node-RED. */
  readonly version: string;
  /** Undefined: added modules are not loaded. */
  readonly modulesDir: string | undefined;
  readonly lists: ModuleLists;
  readonly disabled: () => Disabled;
};

/** A file of a module that defines node types or plugins. */
export type PaletteSet = Omit<Template, "types"> & {
  /** `module/name`. */
  readonly id: string;
  readonly kind: "node" | "plugin";
  readonly name: string;
  readonly isEnabled: boolean;
  readonly types: readonly string[];
  /** The folders of its help texts by language are here, below the name of a language. */
  readonly helpDir: string;
  /** The name of the file with its help texts there. */
  readonly helpFile: string;
  /** Undefined: it has the messages of Node-RED's own nodes. */
  readonly catalog: CatalogFiles | undefined;
  /** Whether there is an HTML file, and a program for the flow runtime. */
  readonly hasTemplate: boolean;
  readonly hasProgram: boolean;
  /** Why it can't be loaded. */
  readonly err?: object | string;
};

export type PaletteModule = {
  readonly name: string;
  readonly version: string;
  /** Whether it is in the folder of added modules. */
  readonly isLocal: boolean;
  /** Whether it was added itself, and not as a dependency. */
  readonly isUser: boolean;
  readonly sets: readonly PaletteSet[];
  readonly icons: readonly { readonly dir: string; readonly files: readonly string[] }[];
  readonly resourcesDir: string | undefined;
  /** Has its example flows; undefined: there are none. */
  readonly examplesDir: string | undefined;
};

export const maxTemplateBytes = 4 * 1024 * 1024;

/** All templates together: they are kept in memory. */
const maxPaletteBytes = 32 * 1024 * 1024;

const maxFilesOfModule = 500;

/**
 * Finds the nodes of Node-RED and of the added modules as its runtime does (`getNodeFiles` in @node-red/registry), from files only:
 * nothing of a module is executed, and nothing is asked of the process of the flows. What is malformed is left out.
 */
export async function findPalette(source: PaletteSource): Promise<PaletteModule[]> {
  const reader = new PaletteReader(source.disabled());
  const modules = [await reader.readCore(source)];
  if (source.modulesDir !== undefined) {
    const { modulesDir } = source;
    const added = new Set(readModules(modulesDir).map(({ name }) => name));
    const found = await findPackages(join(modulesDir, "node_modules"), source);
    for (const each of withDependencies(found, added)) {
      const { name } = each;
      // One after another, so that only one template is being parsed.
      modules.push(await reader.readModule(each, added.has(name)));
    }
  }
  return modules;
}

type Package = { readonly dir: string; readonly name: string; readonly version: string; readonly section: Fields };

/** The packages in a folder of packages that define nodes or plugins, and may be loaded. */
async function findPackages(dir: string, { lists, version }: PaletteSource): Promise<Package[]> {
  const names = (await readNames(dir)).filter((name) => !name.startsWith("."));
  const folders = names.map(async (name) =>
    name.startsWith("@") ? (await readNames(join(dir, name))).map((each) => `${name}/${each}`) : [name],
  );
  return (await Promise.all(folders))
    .flat()
    .map((folder) => ({ dir: join(dir, folder), manifest: readManifest(join(dir, folder, "package.json")) }))
    .flatMap(({ dir: packageDir, manifest }) => {
      const { name, version: own = "", ["node-red"]: section } = manifest;
      if (typeof name !== "string" || !isModuleName(name) || typeof own !== "string" || !isFields(section)) {
        return [];
      }
      if (name === coreModule || !isAllowed(lists, name, own)) {
        return [];
      }
      const { version: range } = section;
      const fits = typeof range !== "string" || semver.satisfies(version, range);
      return fits ? [{ dir: packageDir, name, version: own, section }] : [];
    });
}

/** Without the packages whose nodes need those of a missing one, and without dependencies of others that were not added themselves. */
function withDependencies(packages: readonly Package[], added: ReadonlySet<string>): Package[] {
  const known = new Set(packages.map(({ name }) => name));
  const complete = packages.filter((each) => dependenciesOf(each).every((name) => known.has(name)));
  const used = new Set(complete.flatMap(dependenciesOf));
  return complete.filter(({ name }) => added.has(name) || !used.has(name));
}

function dependenciesOf({ section: { dependencies } }: Package): string[] {
  return Array.isArray(dependencies) ? dependencies.filter((name) => typeof name === "string") : [];
}

/** Reads modules one after another, within a limit that they share. Types that several define belong to the first one. */
class PaletteReader {
  #bytesLeft = maxPaletteBytes;
  readonly #moduleOfType = new Map<string, string>();
  readonly #disabled: ReadonlySet<string>;

  constructor({ modules, sets }: Disabled) {
    this.#disabled = new Set([...modules, ...sets]);
  }

  async readCore({ coreDir, version }: PaletteSource): Promise<PaletteModule> {
    const { files, iconDirs } = await scanCore(coreDir);
    const sets: PaletteSet[] = [];
    for (const file of files) {
      const category = basename(dirname(file));
      const set = await this.#readSet(coreModule, "node", coreSetOf(file), file);
      sets.push({
        ...set,
        // It has no dialog.
        types: set.name === "junction" ? ["junction"] : set.types,
        helpDir: join(coreDir, "locales"),
        helpFile: join(category, basename(set.helpFile)),
        catalog: undefined,
      });
    }
    const others = { isLocal: false, isUser: false, resourcesDir: undefined };
    const examplesDir = await findExamples(coreDir);
    return { examplesDir, name: coreModule, version, sets, icons: await readIcons(iconDirs), ...others };
  }

  async readModule({ dir, name: module, version, section }: Package, isUser: boolean): Promise<PaletteModule> {
    const sets: PaletteSet[] = [];
    const iconDirs = new Set<string>();
    for (const kind of ["node", "plugin"] as const) {
      for (const [name, path] of filesOf(section[`${kind}s`])) {
        const file = join(dir, path);
        if (isWithin(dir, file)) {
          const set = await this.#readSet(module, kind, name, file);
          sets.push(kind === "node" ? await this.#addSubflows(set, dir, file) : set);
          iconDirs.add(join(dirname(file), "icons"));
        }
      }
    }
    const resourcesDir = join(dir, "resources");
    return {
      name: module,
      version,
      isLocal: true,
      isUser,
      sets,
      icons: await readIcons(iconDirs),
      resourcesDir: (await isFolder(resourcesDir)) ? resourcesDir : undefined,
      examplesDir: await findExamples(dir),
    };
  }

  async #readSet(module: string, kind: PaletteSet["kind"], name: string, file: string): Promise<PaletteSet> {
    const id = `${module}/${name}`;
    const template = file.replace(/\.[^./]+$/, ".html");
    const text = await this.#readTemplate(template);
    const { types, main, help } = parseTemplate(text ?? "");
    const helpDir = join(dirname(file), "locales");
    const helpFile = basename(template);
    const err = kind === "node" ? this.#claimTypes(module, types) : undefined;
    return {
      id,
      kind,
      name,
      isEnabled: !this.#disabled.has(module) && !this.#disabled.has(id),
      types,
      main,
      help,
      helpDir,
      helpFile,
      catalog: { dir: helpDir, file: helpFile.replace(/\.html$/, ".json") },
      hasTemplate: text !== undefined,
      hasProgram: await isFile(file),
      ...(err !== undefined && { err }),
    };
  }

  /** As `registerSubflow` of Node-RED, for which the last one has the template of the set. */
  async #addSubflows(set: PaletteSet, moduleDir: string, file: string): Promise<PaletteSet> {
    if (set.err !== undefined) {
      return set;
    }
    if (file.endsWith(".json")) {
      // Node does not load it as a program.
      return { ...set, err: { code: "ERR_IMPORT_ATTRIBUTE_MISSING" } };
    }
    const subflows = (await readSubflows(moduleDir, file)).filter(({ type }) => !set.types.includes(type));
    const types = subflows.map(({ type }) => type);
    const main = subflows.map(({ definition }) => createSubflowTemplate(definition)).at(-1) ?? set.main;
    if (types.length === 0 || main === undefined || main.length > this.#bytesLeft) {
      return set;
    }
    this.#bytesLeft -= main.length;
    const err = this.#claimTypes(set.id.slice(0, -set.name.length - 1), types);
    return { ...set, types: [...set.types, ...types], main, ...(err !== undefined && { err }) };
  }

  /** Undefined: there is none, or it is too large. */
  async #readTemplate(path: string): Promise<string | undefined> {
    const text = await readText(path, Math.min(maxTemplateBytes, this.#bytesLeft));
    this.#bytesLeft -= text?.length ?? 0;
    return text;
  }

  #claimTypes(module: string, types: readonly string[]): object | undefined {
    const type = types.find((each) => this.#moduleOfType.has(each));
    if (type !== undefined) {
      const details = { type, moduleA: this.#moduleOfType.get(type), moduleB: module };
      return { code: "type_already_registered", details };
    }
    types.forEach((each) => this.#moduleOfType.set(each, module));
    return undefined;
  }
}

/** The editor splits the templates at comments that contain it. */
const setName = /^[^\s<>/]{1,100}$/;

function filesOf(value: unknown): [name: string, path: string][] {
  const entries = isFields(value) ? Object.entries(value) : [];
  return entries
    .filter((entry): entry is [string, string] => setName.test(entry[0]) && typeof entry[1] === "string")
    .slice(0, maxFilesOfModule);
}

const iconTypes: ReadonlySet<string> = new Set([".svg", ".png", ".gif"]);

async function readIcons(dirs: Iterable<string>): Promise<PaletteModule["icons"]> {
  const all = await Promise.all(
    Array.from(dirs, async (dir) => ({
      dir,
      files: (await readNames(dir)).filter((name) => iconTypes.has(extname(name).toLowerCase())),
    })),
  );
  return all.filter(({ files }) => files.length > 0);
}

async function readNames(dir: string): Promise<string[]> {
  const names = await readdir(dir).catch(nothingUnlessScarce);
  return names?.toSorted() ?? [];
}

function isFolder(path: string): Promise<boolean> {
  return stat(path).then(
    (found) => found.isDirectory(),
    () => false,
  );
}

function isFile(path: string): Promise<boolean> {
  return stat(path).then(
    (found) => found.isFile(),
    () => false,
  );
}

async function findExamples(moduleDir: string): Promise<string | undefined> {
  const dir = join(moduleDir, "examples");
  // A folder without flows is not offered.
  for await (const _ of glob("**/*.json", { cwd: dir })) {
    return dir;
  }
  return undefined;
}

type SubflowPart = { readonly register: (id: string, subflow: object) => { readonly config: string } };

/** The template of the nodes of a subflow, by Node-RED's own function, which starts nothing; undefined: it is malformed. */
function createSubflowTemplate(definition: object): string | undefined {
  const load = createRequire(resolvePackage("@node-red/runtime"));
  const { register } = load("@node-red/registry/lib/subflow") as SubflowPart;
  try {
    return register("", definition).config;
  } catch {
    return undefined;
  }
}
