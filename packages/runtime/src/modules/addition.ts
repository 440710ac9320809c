import { existsSync } from "node:fs";
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { readManifest } from "../manifest.ts";
import { type LockedPackage, readLockfile, uploadsName } from "./lockfile.ts";

const packagesName = "node_modules";

/** In these folders there are others that can be added one by one. */
const sharedFolders = [join(packagesName, ".bin"), uploadsName];

/**
 * The paths of what a changed copy of the modules has in addition, in the order in which it has to be moved: the lists of packages come
 * last. Undefined if it does more than add packages beside the others: a process that has loaded modules could not go on then. `rebuilt`
 * has the paths of packages whose install scripts were run.
 */
export async function findAddedPaths(
  current: string,
  tree: string,
  rebuilt: ReadonlySet<string>,
): Promise<readonly string[] | undefined> {
  const [before, after] = await Promise.all([listPackages(current), listPackages(tree)]);
  const [lockedBefore, lockedAfter] = [describePackages(current), describePackages(tree)];
  const touched = new Set(Array.from(rebuilt, topOf));
  const isKept = (path: string): boolean =>
    after.includes(path) &&
    !touched.has(path) &&
    versionOf(join(current, path)) === versionOf(join(tree, path)) &&
    lockedBefore.get(path) === lockedAfter.get(path);
  if (!before.every(isKept)) {
    return undefined;
  }
  const added = after.filter((path) => !before.includes(path));
  const files = await Promise.all(
    sharedFolders.map(async (folder) => {
      const known = await readNames(join(current, folder));
      const names = (await readNames(join(tree, folder))).filter((name) => !known.includes(name));
      return names.map((name) => join(folder, name));
    }),
  );
  // Whoever lists the modules finds them by the last one.
  const lists = [join(packagesName, ".package-lock.json"), "package-lock.json", "package.json"];
  return [...added, ...files.flat(), ...lists.filter((path) => existsSync(join(tree, path)))];
}

/** The paths of the packages that are not in others. */
async function listPackages(modulesDir: string): Promise<string[]> {
  const names = (await readNames(join(modulesDir, packagesName))).filter((name) => !name.startsWith("."));
  const paths = names.map(async (name) => {
    const path = join(packagesName, name);
    return name.startsWith("@") ? (await readNames(join(modulesDir, path))).map((each) => join(path, each)) : [path];
  });
  return (await Promise.all(paths)).flat();
}

function versionOf(packageDir: string): unknown {
  return readManifest(join(packageDir, "package.json"))["version"];
}

/** What the lockfile says of each of these packages, with those in it. */
function describePackages(modulesDir: string): ReadonlyMap<string, string> {
  const groups = Map.groupBy(readLockfile(modulesDir), ({ path }) => topOf(path));
  return new Map([...groups].map(([path, packages]) => [path, packages.map(describe).toSorted().join("\n")]));
}

function topOf(path: string): string {
  const [top = path] = /^node_modules\/(?:@[^/]+\/)?[^/]+/.exec(path) ?? [];
  return top;
}

function describe({ path, originalName, version, resolved, integrity, link }: LockedPackage): string {
  return JSON.stringify([path, originalName, version, resolved, integrity, link]);
}

function readNames(folder: string): Promise<string[]> {
  return readdir(folder).catch(() => []);
}
