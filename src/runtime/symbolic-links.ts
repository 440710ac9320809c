import fs from "node:fs";
import { dirname, join, relative, resolve } from "node:path";

/**
 * Throws if a symbolic link in the directory leads to a place where this process may not write. Node's permission model checks
 * the path of a link, but not where it leads.
 */
export function assertLinksStayInside(directory: string): void {
  const { permission } = process;
  for (const entry of fs.readdirSync(directory, { recursive: true, withFileTypes: true })) {
    if (!entry.isSymbolicLink()) continue;
    const link = join(entry.parentPath, entry.name);
    if (permission.has("fs.write", readTarget(link))) continue;
    throw new Error(
      `the symbolic link ${relative(directory, link)} in runtime.dir leads out of it: remove it, install a copy ` +
        "(npm install --install-links), or add its target to runtime.allow.fileSystemWrite",
    );
  }
}

function readTarget(link: string): string {
  try {
    return fs.realpathSync.native(link);
  } catch {
    // A link to nothing, which a flow could create.
    return resolve(fs.realpathSync.native(dirname(link)), fs.readlinkSync(link));
  }
}

/**
 * Keeps flows from moving and copying symbolic links, which could lead elsewhere then. Node's permission model keeps them from
 * creating links in other ways.
 *
 * The replacements use only what was captured before, since flows can replace every property of built-in objects. They accept only
 * strings as paths, which can't change after the check.
 */
export function restrictSymbolicLinks(): void {
  const { apply } = Reflect;
  const { cpSync, readdirSync, readlinkSync, rename, renameSync } = fs;
  const { rename: renameAsync } = fs.promises;

  function isLink(path: string): boolean {
    try {
      readlinkSync(path);
      return true;
    } catch {
      return false;
    }
  }

  function namesIn(path: string): readonly string[] {
    try {
      return readdirSync(path);
    } catch {
      return [];
    }
  }

  function hasLink(path: string): boolean {
    if (isLink(path)) return true;
    const names = namesIn(path);
    for (let index = 0; index < names.length; index += 1) {
      if (hasLink(`${path}/${names[index]}`)) return true;
    }
    return false;
  }

  function findDenial(path: unknown): Error | undefined {
    if (typeof path === "string" && !hasLink(path)) return undefined;
    const message = "Symbolic links, and directories that contain them, can't be moved or copied by flows";
    return Object.assign(new Error(message), { code: "ERR_ACCESS_DENIED" });
  }

  fs.renameSync = (...args) => {
    const denial = findDenial(args[0]);
    if (denial !== undefined) throw denial;
    apply(renameSync, fs, args);
  };
  fs.cpSync = (...args) => {
    const denial = findDenial(args[0]);
    if (denial !== undefined) throw denial;
    apply(cpSync, fs, args);
  };
  fs.promises.rename = async (...args) => {
    const denial = findDenial(args[0]);
    if (denial !== undefined) throw denial;
    await apply(renameAsync, fs.promises, args);
  };
  const renameWithCallback: typeof fs.rename = Object.assign(
    (...args: Parameters<typeof fs.rename>) => {
      const denial = findDenial(args[0]);
      if (denial === undefined) apply(rename, fs, args);
      else setImmediate(args[2], denial);
    },
    { __promisify__: fs.promises.rename },
  );
  fs.rename = renameWithCallback;
}
