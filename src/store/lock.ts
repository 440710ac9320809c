import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { makeDirectory } from "../make-directory.ts";
import { SQLITE_BUSY, sqliteCode } from "./sqlite-error.ts";

/**
 * Takes a data directory for this process: two services on one would each run flows that the other
 * does not know of. The lock is the operating system's, on a file of its own, so that it ends with the
 * process, however that ends. Throws where another process has it. `prepare` is called with the file before.
 */
export function lockDataDir(dataDir: string, prepare: (file: string) => void = () => {}): Disposable {
  makeDirectory(dataDir);
  const file = join(dataDir, "flowgate.lock");
  const db = new DatabaseSync(file, { timeout: 0 });
  try {
    prepare(file);
    db.exec("PRAGMA journal_mode = MEMORY; BEGIN EXCLUSIVE");
  } catch (error) {
    db.close();
    if (sqliteCode(error) === SQLITE_BUSY) {
      throw new Error(
        `another Flowgate runs on the data directory ${dataDir}: stop it, or choose another with --data-dir, ` +
          "FLOWGATE_DATA_DIR or dataDir; for a database elsewhere with --store, FLOWGATE_STORE or store",
        { cause: error },
      );
    }
    throw error;
  }
  return { [Symbol.dispose]: () => db.close() };
}
