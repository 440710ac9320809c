import { existsSync, mkdirSync, readFileSync, readdirSync, renameSync, rmSync } from "node:fs";
import { readdir } from "node:fs/promises";
import { dirname, join } from "node:path";
import { hasCode } from "@flowgate/base/error-code";
import { readManifest } from "@flowgate/base/manifest";
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

/** The lockfile entries of these packages and of the packages nested in them. */
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

/**
 * Names the folders, in that of the modules, of what is being added to them: files and folders by numbers, and the list of their paths. Each
 * addition has another one: a process that still finishes one must not take the files of the next.
 */
export const addingPrefix = "adding-";
export const pathsName = "paths.json";

/** The names of the additions that are not finished. */
export function listAdditions(modulesDir: string): string[] {
  return existsSync(modulesDir) ? readdirSync(modulesDir).filter((name) => name.startsWith(addingPrefix)) : [];
}

/**
 * Moves what is being added to its place, if there is something. Two processes may do so at the same time. Until then, nothing that is
 * loaded from the folder has changed.
 */
export function finishAdditions(modulesDir: string): void {
  for (const name of listAdditions(modulesDir)) {
    const adding = join(modulesDir, name);
    for (const [at, path] of readPaths(adding).entries()) {
      const target = join(modulesDir, path);
      mkdirSync(dirname(target), { recursive: true });
      try {
        renameSync(join(adding, String(at)), target);
      } catch (error) {
        // It was moved already.
        if (!hasCode(error, "ENOENT")) {
          throw error;
        }
      }
    }
    rmSync(adding, { recursive: true, force: true });
  }
}

/** None if another process has finished the addition, or the list did not reach the disk before a loss of power: then nothing refers to it. */
function readPaths(adding: string): readonly string[] {
  try {
    return JSON.parse(readFileSync(join(adding, pathsName), "utf8")) as string[];
  } catch (error) {
    if (error instanceof SyntaxError || hasCode(error, "ENOENT")) {
      return [];
    }
    throw error;
  }
}
