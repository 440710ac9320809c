import { randomUUID } from "node:crypto";
import { chmodSync, existsSync, readdirSync, realpathSync, renameSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { makeDirectory } from "@flowgate/base/directories";
import { hasCode } from "@flowgate/base/error-code";
import { readOwnManifest } from "@flowgate/base/manifest";
import { finishAdditions } from "./addition.ts";

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

/** True if anything is installed in the folder, or may be, since it can't be read now. */
export function hasModules(modulesDir: string): boolean {
  try {
    return readdirSync(join(modulesDir, "node_modules")).some((name) => !name.startsWith("."));
  } catch (error) {
    return !hasCode(error, "ENOENT", "ENOTDIR");
  }
}
