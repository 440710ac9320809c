import { randomUUID } from "node:crypto";
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readFileSync,
  readdirSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { readdir, rm } from "node:fs/promises";
import { dirname, join, relative } from "node:path";
import { hasCode } from "@flowgate/base/error-code";
import { type Fields, isFields } from "@flowgate/base/fields";
import { makeDirectory } from "@flowgate/base/directories";
import { type ModuleSpec, formatModule, isModuleName, isVersionRange } from "@flowgate/base/module-names";
import { readManifest, readOwnManifest } from "./manifest.ts";
import type { LogEntry } from "./messages.ts";

export { type ModuleSpec, isModuleName, isVersionRange };

type Log = (entry: LogEntry, source: "runtime") => void;

/** Creates the runtime's directory if it is missing, makes it private to its owner, and returns its real path. */
export function prepareUserDir(path: string): string {
  makeDirectory(path);
  chmodSync(path, 0o700);
  return realpathSync(path);
}

/** Removes all that flows have written to the runtime's directory. Symbolic links are not followed. Failures are logged. */
export async function removeContent({ dir, log }: { readonly dir: string; readonly log: Log }): Promise<void> {
  try {
    const names = await readdir(dir);
    await Promise.all(names.map((name) => rm(join(dir, name), { recursive: true, force: true })));
    log({ level: "info", message: "the files in runtime.dir were removed" }, "runtime");
  } catch (error) {
    const reason = error instanceof Error && "code" in error ? String(error.code) : String(error);
    log({ level: "error", message: `not all files in runtime.dir could be removed (${reason})` }, "runtime");
  }
}

/** The name of the folder of added modules in the data directory. Flows can read it, and never write it. */
export const modulesDirName = "modules";

/** As `ensureModulesDir`, and makes the folder private to its owner. */
export function prepareModulesDir(path: string): string {
  const dir = ensureModulesDir(path);
  chmodSync(dir, 0o700);
  return dir;
}

/**
 * Creates the folder of added modules if it is missing, and returns its real path. An installation that was interrupted while it replaced
 * the folder is undone; one that had begun to add packages to it is finished.
 */
export function ensureModulesDir(path: string): string {
  if (!existsSync(path) && existsSync(previousModulesDir(path))) {
    renameSync(previousModulesDir(path), path);
  }
  makeDirectory(path);
  const manifest = join(path, "package.json");
  if (!existsSync(manifest)) {
    const content = { name: "flowgate-modules", description: "Modules of the flow runtime", private: true };
    writeFileSync(manifest, `${JSON.stringify(content, undefined, 2)}\n`);
  }
  addFolderId(path);
  finishAdditions(path);
  return realpathSync(path);
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

/** The file in the folder of modules that tells it from the one that it has replaced. */
const idName = "folder.json";

/** For a new folder, and one of an earlier version. Without an id, it is recognized by its inode. */
function addFolderId(modulesDir: string): void {
  try {
    if (!existsSync(join(modulesDir, idName))) {
      writeFolderId(modulesDir);
    }
  } catch (error) {
    if (!hasCode(error, "ENOSPC", "EDQUOT", "EROFS")) {
      throw error;
    }
  }
}

/** Must be called for a folder that replaces another one. */
export function writeFolderId(modulesDir: string): void {
  writeFileSync(join(modulesDir, idName), `${JSON.stringify({ id: randomUUID() })}\n`);
}

/** Returns a text that stays the same until the folder is replaced: while packages are only added. Throws if it can't be read now. */
export function identifyFolder(modulesDir: string): string {
  const { id } = readOwnManifest(join(modulesDir, idName));
  // Someone may have replaced it by a copy of another one. An inode can be used again, with the same time on some file systems.
  const { ino = 0n, birthtimeNs = 0n } = statSync(modulesDir, { bigint: true, throwIfNoEntry: false }) ?? {};
  return `${String(id)} ${ino} ${birthtimeNs}`;
}

/** Where the folder is moved while an installation replaces it. */
export function previousModulesDir(path: string): string {
  return `${path}.previous`;
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

/** Whether anything is installed in the folder, or may be, since it can't be read now. */
export function hasModules(modulesDir: string): boolean {
  try {
    return readdirSync(join(modulesDir, "node_modules")).some((name) => !name.startsWith("."));
  } catch (error) {
    return !hasCode(error, "ENOENT", "ENOTDIR");
  }
}

/** Why the modules must not be loaded: flows could have written them. Undefined if that is not possible. */
export function describeWritableModules(modulesDir: string, writable: readonly string[]): string | undefined {
  return !isWritable(modulesDir, writable)
    ? undefined
    : `added modules are not loaded, since flows can write their folder, "${modulesDirName}" in the data directory: choose another ` +
        "runtime.dir, or remove it from runtime.allow.fileSystemWrite";
}

/** Whether what flows can write contains a folder, or is in it. */
export function isWritable(folder: string, writable: readonly string[]): boolean {
  return writable.some((path) => isWithin(path, folder) || isWithin(folder, path));
}

/** Whether a path is the folder or in it, as far as its text says. */
export function isWithin(folder: string, path: string): boolean {
  return !/^\.\.(?:\/|$)/.test(relative(folder, path));
}

/** Logs which modules in the user folder are not loaded, as they were before there was a folder that flows can't write. */
export function warnOfUnloadedModules(dir: string, modulesDir: string | undefined, log: Log): void {
  const installed = new Set(modulesDir === undefined ? [] : readModules(modulesDir).map(({ name }) => name));
  const modules = readModules(dir).filter(({ name }) => !installed.has(name));
  if (modules.length === 0) {
    return;
  }
  log(
    {
      level: "warn",
      message:
        `the modules in runtime.dir are not loaded, since flows can write there: ${modules.map(({ name }) => name).join(", ")}. ` +
        "Flows can have changed this list. Install those that you know with " +
        `"flowgate module install ${modules.map(formatModule).join(" ")}", then run "flowgate runtime restart"`,
    },
    "runtime",
  );
}
