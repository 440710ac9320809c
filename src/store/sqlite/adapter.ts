import { existsSync, linkSync, renameSync, rmSync } from "node:fs";
import { realpath } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import { backup, type DatabaseSync } from "node:sqlite";
import { makeDirectory } from "@flowgate/base/directories";
import type { StoreAdapter } from "../adapter.ts";
import { systemOrigin } from "../audit-store.ts";
import { lockDataDir, tryLockDataDir } from "../lock.ts";
import { createOwnerSetter } from "../owner.ts";
import type { Rotation, RotationOptions } from "../rotation.ts";
import { appendAudit, lockAudit } from "../sql/audit-log.ts";
import { readKeyState } from "../sql/key-state.ts";
import { rotate } from "../sql/rotate.ts";
import { fullSync, inTransaction, queryOf } from "./connection.ts";
import {
  assertExists,
  assertIntact,
  backupHint,
  connectCommand,
  createFile,
  disableWal,
  storeHint,
  sync,
} from "./database-file.ts";
import { reserveLog } from "./database.ts";
import { toFlowgateError } from "./errors.ts";
import { openSqliteStore, verifyAuditLog } from "./open-store.ts";
import { assertCurrentSchema, migrate } from "./schema.ts";
import { openTableReader, openTableWriter } from "./tables.ts";

/** A location is the path of the database. It is resolved, because SQLite gives names such as `:memory:` a special meaning. */
export const sqliteAdapter: StoreAdapter = {
  async open(location, { keys: key, dataDir }) {
    const path = resolve(location);
    const journalPath = join(dataDir, "journal.db");
    const folder = dirname(path);
    makeDirectory(folder);
    if ((await realpath(folder)) === (await realpath(dataDir))) {
      return openSqliteStore({ path, journalPath, key });
    }
    await using stack = new AsyncDisposableStack();
    stack.use(lockDataDir(folder));
    const store = stack.use(await openSqliteStore({ path, journalPath, key }));
    const disposables = stack.move();
    return { ...store, [Symbol.asyncDispose]: () => disposables.disposeAsync() };
  },
  backup: (location, file) => backupStore(resolve(location), file),
  restore: (file, location) => restoreStore(file, resolve(location)),
  openReader: (location) => openTableReader(resolve(location)),
  openWriter: (location) => openTableWriter(resolve(location)),
  verifyAudit: (location, expected) => verifyAuditLog(resolve(location), expected),
  rotate: (location, options) => rotateStore(resolve(location), options),
};

/** Copies the database to a new file, which is durable when the promise resolves and does not exist when it rejects. */
export async function backupStore(path: string, file: string): Promise<void> {
  assertExists(path, storeHint);
  await copyDatabase(path, file, async () => {});
}

/**
 * Replaces the database by a backup. Keeps the previous database under another name, and resolves with that path if
 * there was one. Created files belong to the owner of the database's folder, even if root runs this.
 */
export async function restoreStore(file: string, path: string): Promise<string | undefined> {
  assertExists(file, backupHint);
  const folder = dirname(path);
  const setOwner = createOwnerSetter(folder, path);
  using _lock = lockDataDir(folder, setOwner);
  const draft = `${path}.restored`;
  rmSync(draft, { force: true });
  try {
    await copyDatabase(file, draft, async (db) => {
      migrate(db, draft);
      await inTransaction(db, async () => {
        db.exec("DELETE FROM token");
        await appendAudit(await lockAudit(queryOf(db)), [{ kind: "store_restored", origin: systemOrigin }]);
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

/** The database can be used by a service meanwhile. */
async function rotateStore(path: string, options: RotationOptions): Promise<Rotation> {
  assertExists(path, storeHint);
  const folder = dirname(path);
  const setOwner = createOwnerSetter(folder, path);
  using stack = new DisposableStack();
  const db = stack.use(connectCommand(path));
  assertCurrentSchema(db, path);
  // Overwrites the values that are replaced.
  db.exec(`PRAGMA secure_delete = ON; ${fullSync}`);
  for (const file of [`${path}-wal`, `${path}-shm`].filter((each) => existsSync(each))) {
    setOwner(file);
  }
  const query = queryOf(db);
  let lock: Disposable | undefined;
  const release = (): void => {
    lock?.[Symbol.dispose]();
    lock = undefined;
  };
  stack.defer(release);
  const rotation = await rotate(
    {
      query,
      async transaction(work) {
        try {
          return await inTransaction(db, () => work(query));
        } catch (error) {
          throw toFlowgateError(error);
        }
      },
      async findUnaware(_, keyId) {
        const { known } = await readKeyState(query);
        // A killed service has left the list of its keys.
        const isAware = known.includes(keyId) || (lock ??= tryLockDataDir(folder, setOwner)) !== undefined;
        return isAware ? [] : ["the service that uses the store"];
      },
      release,
    },
    options,
  );
  // Overwrites the replaced values in the write-ahead log as well, and reserves its space again.
  db.exec("PRAGMA wal_checkpoint(TRUNCATE)");
  reserveLog(db, path);
  return rotation;
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

async function copyDatabase(from: string, to: string, change: (copy: DatabaseSync) => Promise<void>): Promise<void> {
  createFile(to);
  try {
    {
      using source = connectCommand(from);
      await backup(source, to);
    }
    using copy = connectCommand(to);
    // Without a write-ahead log the copy is a single file.
    copy.exec("PRAGMA journal_mode = DELETE; PRAGMA synchronous = FULL");
    assertIntact(copy, from);
    await change(copy);
  } catch (error) {
    rmSync(to, { force: true });
    throw error;
  }
  sync(to);
  sync(dirname(to));
}
