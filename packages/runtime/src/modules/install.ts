import { existsSync, readFileSync, statSync } from "node:fs";
import { readdir, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { FlowgateError } from "@flowgate/flows/errors";
import { readDisabled, splitSetId } from "./disabled.ts";
import { type ModuleSpec, isVersionRange } from "@flowgate/base/module-names";
import { readCertainManifest } from "@flowgate/base/manifest";
import { type InstalledModule, readInstalledModules } from "./catalog.ts";
import type { Staging } from "./change.ts";
import { writeDisabled } from "./disable.ts";
import { type LockedPackage, readLockfile, uploadOf, uploadsName } from "./lockfile.ts";
import { assertLoadable, assertNoCircle, assertWellFormed, malformed } from "./node-packages.ts";
import type { Npm } from "./npm.ts";
import { assertModuleLimit } from "./set.ts";

/** A package to install: from a registry, or a tarball in the folder `uploads` of the modules. */
export type PackageSource = ModuleSpec & { readonly upload?: string };

export type InstallOptions = {
  /** True if packages may come from git repositories and URLs. */
  readonly allowsGit?: boolean | undefined;
  /** The end of the error about a package from elsewhere: what the caller can do. */
  readonly originHint?: string | undefined;
  /** The packages whose install scripts are run, unless that was done before and they have not changed since. */
  readonly scripts: readonly string[];
  /** Those of them whose scripts are run again. */
  readonly rerun?: readonly string[];
  /** True if what is in the cache is used without asking the registry: for exact versions only. */
  readonly prefersCache?: boolean;
  /** Called with the step that begins. */
  readonly onStep?: (step: string) => void;
  /** Throws if the modules must not be installed. Called with them, and with all packages. */
  readonly check: (installed: readonly InstalledModule[], packages: readonly LockedPackage[]) => void;
};

export type Installation = {
  /** The modules that were asked for. */
  readonly installed: readonly InstalledModule[];
  /** The packages that have install scripts which were not run. */
  readonly scriptsNotRun: readonly string[];
  /** Those of them whose scripts are never run: they were uploaded, or another package has brought them by this name. */
  readonly scriptsNeverRun: readonly string[];
};

/** Installs packages with all that they require into a folder of modules. Throws an NpmError or a FlowgateError. */
export async function installPackages(
  { tree, rebuilt }: Pick<Staging, "tree" | "rebuilt">,
  npm: Npm,
  sources: readonly PackageSource[],
  {
    allowsGit = false,
    originHint = "",
    scripts,
    rerun = [],
    prefersCache = false,
    onStep = () => {},
    check,
  }: InstallOptions,
): Promise<Installation> {
  const listed = Object.keys(dependenciesOf(tree)).map((name) => ({ name }));
  assertModuleLimit(listed, sources);
  onStep("downloading");
  const before = new Map(readLockfile(tree).map((each) => [each.path, each]));
  const flags = ["--save-exact", ...(prefersCache ? ["--prefer-offline"] : [])];
  await npm(["install", ...flags, "--", ...sources.map(formatSource)]);
  onStep("checking");
  const packages = readLockfile(tree);
  const isNew = ({ path, version, resolved, integrity }: LockedPackage): boolean => {
    const known = before.get(path);
    return known?.version !== version || known?.resolved !== resolved || known?.integrity !== integrity;
  };
  // An operator may have installed others before, with --allow-git.
  const changed = packages.filter(isNew);
  if (!allowsGit) {
    assertFromRegistry(changed, originHint);
  }
  const modules = await readInstalledModules(tree);
  assertUploaded(tree, sources);
  const installed = modules.filter(({ name }) => sources.some((source) => source.name === name));
  assertLoadable(tree, changed);
  for (const { name } of installed) {
    assertWellFormed(tree, name);
  }
  assertNoCircle(tree, packages, changed);
  check(installed, packages);
  const notUploaded = packages.filter(({ resolved }) => allowsGit || isFromRegistry(resolved));
  const runnable = notUploaded.filter((each) => hasOwnName(each, packages));
  const named = runnable.filter(({ name }) => scripts.includes(name));
  const asked = (name: string): boolean => rerun.includes(name) || sources.some((source) => source.name === name);
  const run = named.filter(({ name, path }) => asked(name) || !hasRun(join(tree, path)));
  if (run.length > 0) {
    onStep("running install scripts");
    // By their folders: others can have the same name.
    await npm(["rebuild", "--no-ignore-scripts", "--", ...run.map(({ path }) => `./${path}`)]);
    for (const { path } of run) {
      rebuilt.add(path);
      await writeFile(join(tree, path, ranName), ranBy);
    }
  }
  await removeUnusedUploads(tree);
  const notRun = packages.filter((each) => each.hasInstallScript === true && !named.includes(each));
  const neverRun = notRun.filter((each) => !runnable.includes(each));
  return { installed, scriptsNotRun: namesOf(notRun), scriptsNeverRun: namesOf(neverRun) };
}

/** The file in a package whose install scripts were run, which is gone when npm replaces the package. */
const ranName = ".flowgate-scripts";

/** They may have compiled something for this version of the interface of Node.js. */
const ranBy = `${process.versions.modules} ${process.arch}\n`;

function hasRun(packageDir: string): boolean {
  const path = join(packageDir, ranName);
  return statSync(path, { throwIfNoEntry: false })?.isFile() === true && readFileSync(path, "utf8") === ranBy;
}

function namesOf(packages: readonly LockedPackage[]): string[] {
  return [...new Set(packages.map(({ name }) => name))];
}

/** True if a package has the name that it is installed by, and none that only the publisher of another package gives to it. */
function hasOwnName(
  { name, originalName = name, path, inBundle }: LockedPackage,
  packages: readonly LockedPackage[],
): boolean {
  const isLockedByOther = packages.some((each) => each.hasShrinkwrap === true && path.startsWith(`${each.path}/`));
  return originalName === name && inBundle !== true && !isLockedByOther;
}

export async function uninstallPackages(tree: string, npm: Npm, names: readonly string[]): Promise<void> {
  await npm(["uninstall", "--offline", "--", ...names]);
  await removeUnusedUploads(tree);
  const { modules, sets } = readDisabled(tree);
  const isKept = (id: string): boolean => !names.includes(splitSetId(id).module);
  const kept = { modules: modules.filter(isKept), sets: sets.filter(isKept) };
  if (kept.modules.length < modules.length || kept.sets.length < sets.length) {
    await writeDisabled(tree, kept);
  }
}

function formatSource({ name, version, upload }: PackageSource): string {
  return upload === undefined ? `${name}@${version ?? "latest"}` : formatUpload(upload);
}

function formatUpload(upload: string): string {
  return `file:${uploadsName}/${upload}`;
}

/** Throws if a package is neither from a registry, with a hash, nor an uploaded one. */
function assertFromRegistry(packages: readonly LockedPackage[], hint: string): void {
  for (const { name, path, resolved, integrity, link, inBundle, ...required } of packages) {
    const isKnown =
      inBundle === true || (integrity !== undefined && (isFromRegistry(resolved) || isUpload(path, name, resolved)));
    if (link === true || !isKnown) {
      throw foreign(name, hint);
    }
    // npm installs peers too.
    for (const ranges of [required.dependencies, required.optionalDependencies, required.peerDependencies]) {
      assertRequiresRegistry(name, ranges ?? {}, hint);
    }
  }
}

/** Throws if a package requires another one that does not come from a registry: npm would read its file or URL. */
export function assertRequiresRegistry(name: string, dependencies: Readonly<Record<string, unknown>>, hint = ""): void {
  const other = Object.entries(dependencies).find(
    ([, range]) => typeof range !== "string" || !isRegistryRange(range.trim()),
  );
  if (other !== undefined) {
    throw foreign(`${name} requires ${other[0].slice(0, 214)}, which`, hint);
  }
}

function isRegistryRange(range: string): boolean {
  return range === "" || range.startsWith("npm:") || isVersionRange(range);
}

function foreign(what: string, hint: string): FlowgateError {
  return new FlowgateError(
    "module_failed",
    `${what} does not come from a registry: it is not installed, and the modules remain as they were${hint}`,
  );
}

/** Those of a registry on this machine have a hash only. */
function isFromRegistry(resolved: string | undefined): boolean {
  return resolved === undefined || /^https?:/.test(resolved);
}

function isUpload(path: string, name: string, resolved: string | undefined): boolean {
  return path === `node_modules/${name}` && uploadOf(resolved) !== undefined;
}

/** Throws if npm has found another name in a tarball than was found before. */
function assertUploaded(tree: string, sources: readonly PackageSource[]): void {
  const dependencies = dependenciesOf(tree);
  const other = sources.find(({ name, upload }) => upload !== undefined && dependencies[name] !== formatUpload(upload));
  if (other !== undefined) {
    throw malformed(other.name, "its tarball has several names");
  }
}

/** Of a module that was uploaded, and replaced or removed since. */
async function removeUnusedUploads(tree: string): Promise<void> {
  const folder = join(tree, uploadsName);
  const used = new Set(Object.values(dependenciesOf(tree)));
  const names = existsSync(folder) ? await readdir(folder) : [];
  for (const name of names.filter((each) => !used.has(formatUpload(each)))) {
    await rm(join(folder, name));
  }
}

/** The dependencies in the package.json of a folder of modules. */
function dependenciesOf(tree: string): Readonly<Record<string, unknown>> {
  return Object(readCertainManifest(join(tree, "package.json"))["dependencies"]) as Record<string, unknown>;
}
