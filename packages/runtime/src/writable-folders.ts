import { existsSync, realpathSync } from "node:fs";
import { resolve, sep } from "node:path";
import { isWithin } from "@flowgate/base/directories";
import { modulesDirName } from "./modules/folder.ts";

/** Where flows can write. */
export type WritableFolders = { readonly dir: string; readonly allow: { readonly fileSystemWrite: readonly string[] } };

/** True if flows can write or replace this file or folder. */
export function canFlowsWrite({ dir, allow }: WritableFolders, path: string): boolean {
  return [dir, ...allow.fileSystemWrite].some((folder) => contains(folder, path));
}

/** True if what flows can write contains a folder, or is in it. */
export function isWritable(folder: string, writable: readonly string[]): boolean {
  return writable.some((path) => isWithin(path, folder) || isWithin(folder, path));
}

/** Why the modules must not be loaded: flows could have written them. Undefined if that is not possible. */
export function describeWritableModules(modulesDir: string, writable: readonly string[]): string | undefined {
  return !isWritable(modulesDir, writable)
    ? undefined
    : `added modules are not loaded, since flows can write their folder, "${modulesDirName}" in the data directory: choose another ` +
        "runtime.dir, or remove it from runtime.allow.fileSystemWrite";
}

/** Also if a symbolic link in the folder leads to the path. */
function contains(folder: string, path: string): boolean {
  const [outers, inners] = [folder, path].map((each) =>
    [resolve(each), existsSync(each) ? realpathSync(each) : resolve(each)].map((name) => `${name}${sep}`),
  );
  return outers?.some((outer) => inners?.some((inner) => inner.startsWith(outer))) ?? false;
}
