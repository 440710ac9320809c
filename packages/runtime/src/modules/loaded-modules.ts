import { createRequire } from "node:module";
import { join } from "node:path";
import semver from "semver";
import { CachedRead } from "@flowgate/base/cached-read";
import { isWithin, readNames } from "@flowgate/base/directories";
import { type Fields, isFields } from "@flowgate/base/fields";
import { resolvePackage } from "@flowgate/base/resolve-package";
import { readManifest } from "@flowgate/base/manifest";
import { isModuleName } from "@flowgate/base/module-names";
import type { ModuleLists } from "@flowgate/base/module-rules";
import type { Disabled } from "./disabled.ts";
import { readModules } from "./spec.ts";
import { signModules } from "./catalog.ts";
import { coreModule, coreSetOf, findCoreDir, scanCore } from "./core-nodes.ts";
import { isAllowed } from "./policy.ts";
import { readSubflows } from "./subflows.ts";

/** A file of a module that defines node types or plugins. */
export type LoadedSet = {
  readonly kind: "node" | "plugin";
  readonly name: string;
  /** The path of the file, which is usually a program. */
  readonly file: string;
  readonly isEnabled: boolean;
  /** The node types that a program registers as subflows, with the templates of their nodes; undefined: it is malformed. */
  readonly subflows: () => Promise<readonly { readonly type: string; readonly template: string | undefined }[]>;
};

/** A module whose nodes the flow runtime loads. */
export type LoadedModule = {
  readonly name: string;
  readonly version: string;
  readonly dir: string;
  /** True if it was added itself; false for Node-RED's own nodes, and for dependencies of other modules. */
  readonly isUser: boolean;
  readonly sets: readonly LoadedSet[];
};

type Source = {
  /** The version of Node-RED. */
  readonly version: string;
  /** Undefined: added modules are not loaded. */
  readonly modulesDir: string | undefined;
  readonly lists: ModuleLists;
  readonly disabled: () => Disabled;
};

const maxFilesOfModule = 500;

/**
 * Returns a function that lists Node-RED's own nodes, and then the added modules that its runtime loads (`getNodeFiles` in
 * @node-red/registry). They are read from files: no program is executed, and the runtime process is not asked. The list is the same array
 * until the modules are changed.
 */
export function listLoadedModules(source: Source): () => Promise<readonly LoadedModule[]> {
  const { modulesDir, disabled } = source;
  const coreDir = findCoreDir();
  const modules = new CachedRead(() => readLoadedModules(source, coreDir));
  return async () => {
    const signed = modulesDir === undefined ? "" : await signModules(modulesDir);
    return modules.get(`${signed} ${JSON.stringify(disabled())}`);
  };
}

async function readLoadedModules(source: Source, coreDir: string): Promise<LoadedModule[]> {
  const { version, modulesDir } = source;
  const { modules, sets } = source.disabled();
  const disabled = new Set([...modules, ...sets]);
  const own = { name: coreModule, version, dir: coreDir };
  const coreFiles = (await scanCore(coreDir)).map((file): NamedFile => [coreSetOf(file), file]);
  const core = { ...own, isUser: false, sets: toSets("node", own, coreFiles, disabled) };
  if (modulesDir === undefined) {
    return [core];
  }
  const added = new Set(readModules(modulesDir).map(({ name }) => name));
  const packages = withDependencies(await findPackages(join(modulesDir, "node_modules"), source), added);
  const others = packages.map((each) => {
    const { name, version: own, dir, section } = each;
    const sets = (["node", "plugin"] as const).flatMap((kind) =>
      toSets(kind, each, filesOf(section[`${kind}s`], dir), disabled),
    );
    return { name, version: own, dir, isUser: added.has(name), sets };
  });
  return [core, ...others];
}

type Package = { readonly dir: string; readonly name: string; readonly version: string; readonly section: Fields };

/** The packages in a folder of packages that define nodes or plugins, and may be loaded. */
async function findPackages(dir: string, { lists, version }: Source): Promise<Package[]> {
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

/** The editor splits the templates at comments that contain it. */
const setName = /^[^\s<>/]{1,100}$/;

type NamedFile = readonly [name: string, file: string];

/** The files that a section of a package.json names, without those outside of the package. */
function filesOf(section: unknown, dir: string): NamedFile[] {
  return Object.entries(isFields(section) ? section : {})
    .filter((entry): entry is [string, string] => setName.test(entry[0]) && typeof entry[1] === "string")
    .slice(0, maxFilesOfModule)
    .map(([name, path]): NamedFile => [name, join(dir, path)])
    .filter(([, file]) => isWithin(dir, file));
}

function toSets(
  kind: LoadedSet["kind"],
  { name: module, dir }: Pick<LoadedModule, "name" | "dir">,
  files: readonly NamedFile[],
  disabled: ReadonlySet<string>,
): LoadedSet[] {
  return files.map(([name, file]) => ({
    kind,
    name,
    file,
    isEnabled: !disabled.has(module) && !disabled.has(`${module}/${name}`),
    async subflows() {
      const found = await readSubflows(dir, file);
      return found.map(({ type, definition }) => ({ type, template: createSubflowTemplate(definition) }));
    },
  }));
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
