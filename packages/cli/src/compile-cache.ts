import { mkdirSync, realpathSync, statSync } from "node:fs";
import { enableCompileCache, getCompileCacheDir } from "node:module";
import { dirname, isAbsolute, join } from "node:path";

// Node writes its compile cache when the process exits, and the next start is faster. Since cached code is executed in this
// process, the folder must belong to this user and not be writable by others.

/** Enables the compile cache of the service in the data directory, if that exists already. */
export function useCompileCache(dataDir: string): void {
  const folder = join(dataDir, "compile-cache");
  // Otherwise, the data directory does not exist yet, or is not writable, which the service itself reports.
  if (isCreated(folder, { recursive: false }) && isPrivate(folder)) {
    enableCompileCache(folder);
  }
}

/**
 * Enables the compile cache of all other commands in the cache folder of this user, by the XDG Base Directory Specification.
 * `NODE_COMPILE_CACHE` has precedence.
 *
 * The variables may be those of another user, as with `sudo --preserve-env`, who must not be able to replace the folder.
 */
export function useUserCompileCache({ XDG_CACHE_HOME = "", HOME = "" }: NodeJS.ProcessEnv): void {
  const home = isAbsolute(XDG_CACHE_HOME) ? XDG_CACHE_HOME : join(HOME, ".cache");
  if (!isAbsolute(home) || getCompileCacheDir() !== undefined) {
    return;
  }
  const folder = join(home, "flowgate/compile-cache");
  if (isCreated(folder, { recursive: true }) && isPrivate(folder) && !isReplaceable(realpathSync(folder))) {
    enableCompileCache(folder);
  }
}

/** Creates a folder unless it exists. False: it can't be created, for example on a read-only disk. */
function isCreated(folder: string, { recursive }: { readonly recursive: boolean }): boolean {
  try {
    mkdirSync(folder, { recursive, mode: 0o700 });
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EEXIST";
  }
}

function isPrivate(folder: string): boolean {
  const { uid, mode } = statSync(folder);
  return uid === process.getuid?.() && (mode & 0o022) === 0;
}

/** True if users other than this one and root could rename the folder, or one that contains it. */
function isReplaceable(folder: string): boolean {
  const parent = dirname(folder);
  if (parent === folder) {
    return false;
  }
  const { uid, mode } = statSync(parent);
  const isForeign = uid !== 0 && uid !== process.getuid?.();
  // In a sticky folder, such as /tmp, only the owner can rename a file.
  const isOpen = (mode & 0o022) !== 0 && (mode & 0o1000) === 0;
  return isForeign || isOpen || isReplaceable(parent);
}
