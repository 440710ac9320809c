import { closeSync, existsSync, fsyncSync, linkSync, openSync, renameSync, rmSync } from "node:fs";
import { dirname } from "node:path";
import { backup, DatabaseSync } from "node:sqlite";
import { lockDataDir } from "../lock.ts";
import { systemOrigin } from "../audit-chain.ts";
import { toOpenError } from "../sqlite-error.ts";
import { createOwnerSetter } from "./owner.ts";
import { appendAudit } from "./audit-log.ts";
import { assertFlowgateDatabase, migrate } from "./schema.ts";
import { inTransaction } from "./transaction.ts";

/** Copies the database to a new file, which is durable when the promise resolves and does not exist when it rejects. */
export async function backupStore(path: string, file: string): Promise<void> {
  assertExists(
    path,
    "name the data directory with --data-dir, FLOWGATE_DATA_DIR or dataDir, or the store with --store, FLOWGATE_STORE or store",
  );
  await copyDatabase(path, file, () => {});
}

/**
 * Replaces the database by a backup. Keeps the previous database under another name, and resolves with that path if there
 * was one. Created files belong to the owner of the database's folder, also if root runs this.
 */
export async function restoreStore(file: string, path: string): Promise<string | undefined> {
  assertExists(file, "name a file created by flowgate backup");
  const folder = dirname(path);
  const setOwner = createOwnerSetter(folder, path);
  using _lock = lockDataDir(folder, setOwner);
  const draft = `${path}.restored`;
  rmSync(draft, { force: true });
  try {
    await copyDatabase(file, draft, (db) => {
      migrate(db, draft);
      inTransaction(db, () => {
        db.exec("DELETE FROM token");
        appendAudit(db, { kind: "store_restored", origin: systemOrigin });
      });
      setOwner(draft);
    });
    const replaced = existsSync(path) ? linkReplaced(path) : undefined;
    renameSync(draft, path);
    sync(folder);
    return replaced;
  } finally {
    rmSync(draft, { force: true });
  }
}

/** Links the database to the first free name `<path>.replaced-<number>`, and returns that name. */
function linkReplaced(path: string): string {
  // Merges the write-ahead log into the file, since the restored database must not be opened with the log of another one.
  disableWal(path);
  for (let number = 1; ; number++) {
    const replaced = `${path}.replaced-${number}`;
    if (!existsSync(replaced)) {
      linkSync(path, replaced);
      return replaced;
    }
  }
}

async function copyDatabase(from: string, to: string, change: (copy: DatabaseSync) => void): Promise<void> {
  createFile(to);
  try {
    {
      using source = open(from);
      await backup(source, to);
    }
    using copy = open(to);
    // Without a write-ahead log the copy is a single file.
    copy.exec("PRAGMA journal_mode = DELETE; PRAGMA synchronous = FULL");
    const [check] = copy.prepare("PRAGMA integrity_check").all();
    if (check?.["integrity_check"] !== "ok") {
      throw new Error(`${from} is damaged: use another backup.`);
    }
    change(copy);
  } catch (error) {
    rmSync(to, { force: true });
    throw error;
  }
  sync(to);
  sync(dirname(to));
}

function open(path: string): DatabaseSync {
  const db = new DatabaseSync(path, { timeout: 5000 });
  try {
    assertFlowgateDatabase(db, path);
    return db;
  } catch (error) {
    db.close();
    throw toOpenError(error, path);
  }
}

function disableWal(path: string): void {
  using db = open(path);
  db.exec("PRAGMA journal_mode = DELETE");
}

function createFile(path: string): void {
  try {
    closeSync(openSync(path, "wx", 0o600));
  } catch (error) {
    const code = error instanceof Error && "code" in error ? error.code : undefined;
    if (code === "EEXIST") {
      throw new Error(`${path} already exists: move it away, or name another file.`, { cause: error });
    }
    if (code === "ENOENT") {
      throw new Error(`the directory ${dirname(path)} does not exist: create it, or name another file.`, {
        cause: error,
      });
    }
    throw error;
  }
}

function assertExists(path: string, hint: string): void {
  if (!existsSync(path)) {
    throw new Error(`${path} does not exist: ${hint}`);
  }
}

function sync(path: string): void {
  const handle = openSync(path, "r");
  try {
    fsyncSync(handle);
  } finally {
    closeSync(handle);
  }
}
