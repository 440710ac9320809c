import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { makeDirectory } from "@flowgate/base/directories";

/**
 * Locks a data directory for this process until the lock is disposed. Two services with the same directory would each run
 * flows without the deployments of the other. It is a lock of the operating system on a separate file, so that it ends with
 * the process in any case. Throws if another process has the lock. `prepare` is called with the file before it is locked.
 */
export function lockDataDir(dataDir: string, prepare?: (file: string) => void): Disposable {
  const lock = tryLockDataDir(dataDir, prepare);
  if (lock === undefined) {
    throw new Error(
      `another Flowgate runs on the data directory ${dataDir}: stop it, or choose another with --data-dir, ` +
        "FLOWGATE_DATA_DIR or dataDir; for a database elsewhere with --store, FLOWGATE_STORE or store",
    );
  }
  return lock;
}

/** As `lockDataDir`. Returns undefined if another process has the lock. */
export function tryLockDataDir(dataDir: string, prepare: (file: string) => void = () => {}): Disposable | undefined {
  makeDirectory(dataDir);
  const file = join(dataDir, "flowgate.lock");
  const db = new DatabaseSync(file, { timeout: 0 });
  try {
    prepare(file);
    db.exec("PRAGMA journal_mode = MEMORY; BEGIN EXCLUSIVE");
  } catch (error) {
    db.close();
    if (isBusy(error)) {
      return undefined;
    }
    throw error;
  }
  return { [Symbol.dispose]: () => db.close() };
}

/** True if another process has locked the file: SQLITE_BUSY (https://sqlite.org/rescode.html). */
function isBusy(error: unknown): boolean {
  return error instanceof Error && "errcode" in error && error.errcode === 5;
}
