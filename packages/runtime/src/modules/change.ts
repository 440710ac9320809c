import { randomUUID } from "node:crypto";
import { constants, existsSync } from "node:fs";
import { chmod, copyFile, cp, mkdir, mkdtemp, readdir, realpath, rename, rm, stat, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { hasCode } from "@flowgate/base/error-code";
import { FlowgateError } from "@flowgate/flows/errors";
import { addingPrefix, finishAdditions, pathsName, findAddedPaths } from "./addition.ts";
import { ensureModulesDir, modulesDirName, previousModulesDir, writeFolderId } from "./folder.ts";
import { syncPath, syncTree } from "./sync.ts";

/** A copy of the modules that is changed, in a folder for all that is needed besides. */
export type Staging = {
  readonly work: string;
  readonly tree: string;
  /** The paths of packages whose install scripts were run: what is in them may have changed. */
  readonly rebuilt: Set<string>;
};

/** The names of these folders in the data directory. */
export const stagingPrefix = "modules-install-";

/** The folder in the data directory where npm keeps what it has downloaded, so that modules can be installed again without a network. */
export const cacheName = "npm-cache";

/** In the folder of modules, apart from their code: what npm needs, and packages that did not come from a registry. */
const keptNames = ["package.json", "package-lock.json", "node_modules", "uploads"];

/**
 * Runs `edit` on a copy of the modules, which replaces them if it succeeds. If it fails, or this process is killed, they remain as they
 * were. Packages that were only added are moved into the folder instead, which flows that use it go on to see as it is. Throws
 * `modules_busy` if another process changes them.
 */
export async function changeModules<T>(dataDir: string, edit: (staging: Staging) => Promise<T>): Promise<T> {
  using _ = await lockModules(dataDir);
  const current = ensureModulesDir(join(dataDir, modulesDirName));
  await removeStagings(dataDir);
  // npm compares paths with the real one of its working directory.
  const work = await mkdtemp(join(await realpath(dataDir), stagingPrefix));
  try {
    const tree = join(work, "tree");
    await mkdir(tree, { mode: 0o700 });
    // Without files that configure npm.
    for (const name of keptNames) {
      await cp(join(current, name), join(tree, name), {
        recursive: true,
        verbatimSymlinks: true,
        mode: constants.COPYFILE_FICLONE,
      }).catch(ignoreMissing);
    }
    const staging: Staging = { work, tree, rebuilt: new Set() };
    const result = await edit(staging);
    const added = await findAddedPaths(current, tree, staging.rebuilt);
    await (added === undefined ? replaceAll(current, tree) : add(current, staging, added));
    return result;
  } finally {
    await discard(work);
  }
}

async function replaceAll(current: string, tree: string): Promise<void> {
  // Other users may read it if the flows run as one.
  await chmod(tree, (await stat(current)).mode);
  writeFolderId(tree);
  await syncTree(tree);
  const previous = previousModulesDir(current);
  await rename(current, previous);
  try {
    await rename(tree, current);
    await syncPath(dirname(current));
  } catch (error) {
    await rename(current, tree).catch(ignoreMissing);
    await rename(previous, current);
    throw error;
  }
  await discard(previous);
}

/** Additions take effect at once, by a single rename. A process that finds one unfinished completes it, or reverts it if it can't. */
async function add(current: string, { work, tree }: Staging, paths: readonly string[]): Promise<void> {
  const name = `${addingPrefix}${randomUUID()}`;
  const adding = join(work, name);
  const replaced = join(work, "replaced");
  await mkdir(adding, { mode: 0o700 });
  await mkdir(replaced, { mode: 0o700 });
  for (const [at, path] of paths.entries()) {
    if (existsSync(join(current, path))) {
      await copyFile(join(current, path), join(replaced, String(at)));
    }
    await rename(join(tree, path), join(adding, String(at)));
  }
  await writeFile(join(adding, pathsName), JSON.stringify(paths));
  await syncTree(adding);
  await rename(adding, join(current, name));
  try {
    await syncPath(current);
    finishAdditions(current);
  } catch (error) {
    // From now on, no one finishes it.
    await rename(join(current, name), adding).catch(explainUnfinished);
    for (const [at, path] of paths.entries()) {
      await rm(join(current, path), { recursive: true }).catch(ignoreMissing);
      await rename(join(replaced, String(at)), join(current, path)).catch(ignoreMissing);
    }
    throw error;
  }
}

function explainUnfinished(): never {
  throw new FlowgateError(
    "module_failed",
    "the modules are installed, but could not be moved to their folder. They are with the next change of the modules, and the next start of " +
      "the service: check the disk",
  );
}

/** A failure does not change the result: the next change removes the folder. */
async function discard(path: string): Promise<void> {
  await rm(path, { recursive: true, force: true, maxRetries: 3 }).catch(() => {});
}

/** As `changeModules`, for a change that replaces a single file. */
export async function changeInPlace(dataDir: string, edit: (tree: string) => Promise<void>): Promise<void> {
  using _ = await lockModules(dataDir);
  await edit(ensureModulesDir(join(dataDir, modulesDirName)));
}

/** Removes what processes have left that were killed. Throws `modules_busy` if one changes the modules now. */
export async function removeLeftovers(dataDir: string): Promise<void> {
  using _ = await lockModules(dataDir);
  ensureModulesDir(join(dataDir, modulesDirName));
  await removeStagings(dataDir);
}

/** The caller has the lock. */
async function removeStagings(dataDir: string): Promise<void> {
  const left = (await readdir(dataDir)).filter((name) => name.startsWith(stagingPrefix));
  for (const name of left) {
    // npm may still be working there, until it notices.
    await rm(join(dataDir, name), { recursive: true, force: true, maxRetries: 3 });
  }
  await rm(previousModulesDir(join(dataDir, modulesDirName)), { recursive: true, force: true });
}

/** A lock of the operating system, which ends with the process. */
async function lockModules(dataDir: string): Promise<Disposable> {
  let db: DatabaseSync | undefined;
  try {
    db = new DatabaseSync(join(dataDir, "modules.lock"), { timeout: 0 });
    db.exec("PRAGMA journal_mode = MEMORY; BEGIN EXCLUSIVE");
  } catch (error) {
    db?.close();
    throw explainLockError(error);
  }
  const lock = db;
  return { [Symbol.dispose]: () => lock.close() };
}

// https://sqlite.org/rescode.html
const SQLITE_BUSY = 5;

function explainLockError(error: unknown): unknown {
  if (!hasCode(error, "ERR_SQLITE_ERROR")) {
    return error;
  }
  const { errcode = 0 } = error as { readonly errcode?: number };
  // The lower byte is the primary code.
  if (errcode % 256 === SQLITE_BUSY) {
    return new FlowgateError("modules_busy", "another process changes the modules: try again when it has ended");
  }
  return new FlowgateError(
    "module_failed",
    `modules.lock in the data directory can't be used (SQLite code ${errcode}): check its owner and the space on the disk. ` +
      "The modules remain as they were",
  );
}

function ignoreMissing(error: NodeJS.ErrnoException): void {
  if (error.code !== "ENOENT" && error.code !== "ENOTDIR") {
    throw error;
  }
}
