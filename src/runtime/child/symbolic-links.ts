import fs from "node:fs";
import { dirname, join, relative, resolve } from "node:path";
import { walkDirectory } from "../../base/directories.ts";

/**
 * Throws if a symbolic link in the directory leads to a place where this process may not write. Node's permission model checks
 * the path of a link, but not where it leads.
 */
export function assertLinksStayInside(directory: string): void {
  const { permission } = process;
  for (const entry of walkDirectory(directory)) {
    if (!entry.isSymbolicLink()) {
      continue;
    }
    const link = join(entry.parentPath, entry.name);
    if (permission.has("fs.write", readTarget(link))) {
      continue;
    }
    throw new Error(
      `the symbolic link ${relative(directory, link)} in runtime.dir leads out of it: remove it, ` +
        "or add its target to runtime.allow.fileSystemWrite",
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
 * Keeps flows from moving, linking and copying symbolic links, which could lead elsewhere then. Node's permission model keeps them from
 * creating links in other ways.
 *
 * The replacements use only what was captured before, since flows can replace every property of built-in objects. They accept only
 * strings as paths, and move files synchronously: neither the path nor the working directory can change after the check.
 */
export function restrictSymbolicLinks(): void {
  const { apply } = Reflect;
  const { closeSync, cpSync, openSync, readSync, readdirSync } = fs;
  const { O_NOFOLLOW, O_NONBLOCK, O_RDONLY } = fs.constants;
  const cwd = process.cwd.bind(process);
  const buffer = new Uint8Array(1);

  /** Fails for a directory. */
  function isFile(fd: number): boolean {
    try {
      readSync(fd, buffer, 0, 1, null);
      return true;
    } catch {
      return false;
    }
  }

  /**
   * Throws unless every file is known to be no link: a flow can take away the permissions of a directory, use up the file descriptors
   * or the stack, make a path too long, and replace the code of an error.
   */
  function assertWithoutLinks(path: string): void {
    // Throws if it is a link.
    const fd = openSync(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
    const isDirectory = !isFile(fd);
    closeSync(fd);
    if (!isDirectory) {
      return;
    }
    const names = readdirSync(path);
    for (let index = 0; index < names.length; index += 1) {
      assertWithoutLinks(`${path}/${names[index]}`);
    }
  }

  /** Returns the absolute path of files that may be moved, linked and copied; throws for others. */
  function checkSource(path: unknown): string {
    if (typeof path !== "string") {
      throw denied();
    }
    const absolute = path[0] === "/" ? path : `${cwd()}/${path}`;
    try {
      assertWithoutLinks(absolute);
    } catch (error) {
      throw (error as NodeJS.ErrnoException).code === "ENOENT" ? error : denied();
    }
    return absolute;
  }

  /** Returns the replacements of a function of two paths. */
  function restrict(original: typeof fs.renameSync): Pick<typeof fs, "rename" | "renameSync"> {
    const sync: typeof original = (from, to) => apply(original, fs, [checkSource(from), to]);
    const async: typeof fs.rename.__promisify__ = async (from, to) => sync(from, to);
    const withCallback = (...[from, to, callback]: Parameters<typeof fs.rename>): void => {
      try {
        sync(from, to);
      } catch (error) {
        setImmediate(callback, error as Error);
        return;
      }
      setImmediate(callback, null);
    };
    return { rename: Object.assign(withCallback, { __promisify__: async }), renameSync: sync };
  }

  const { rename, renameSync } = restrict(fs.renameSync);
  // A hard link to a symbolic link is a copy of it.
  const { rename: link, renameSync: linkSync } = restrict(fs.linkSync);
  Object.assign(fs, { rename, renameSync, link, linkSync });
  Object.assign(fs.promises, { rename: rename.__promisify__, link: link.__promisify__ });
  fs.cpSync = (from, ...rest) => apply(cpSync, fs, [checkSource(from), ...rest]);
}

function denied(): Error {
  const message = "Symbolic links, and directories that contain them, can't be moved, linked or copied by flows";
  return Object.assign(new Error(message), { code: "ERR_ACCESS_DENIED" });
}
