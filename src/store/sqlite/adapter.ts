import { realpath } from "node:fs/promises";
import { dirname, resolve } from "node:path";
import { makeDirectory } from "../../base/directories.ts";
import type { StoreAdapter } from "../adapter.ts";
import { lockDataDir } from "../lock.ts";
import { backupStore, restoreStore } from "./backup.ts";
import { openSqliteStore } from "./open-store.ts";
import { openTableReader } from "./table-reader.ts";
import { openTableWriter } from "./table-writer.ts";
import { verifyAuditLog } from "./verify-audit.ts";

/** A location is the path of the database. It is resolved, because SQLite gives names such as `:memory:` a special meaning. */
export const sqliteAdapter: StoreAdapter = {
  async open(location, { key, dataDir }) {
    const path = resolve(location);
    const folder = dirname(path);
    makeDirectory(folder);
    if ((await realpath(folder)) === (await realpath(dataDir))) {
      return openSqliteStore({ path, key });
    }
    await using stack = new AsyncDisposableStack();
    stack.use(lockDataDir(folder));
    const store = stack.use(await openSqliteStore({ path, key }));
    const disposables = stack.move();
    return { ...store, [Symbol.asyncDispose]: () => disposables.disposeAsync() };
  },
  backup: (location, file) => backupStore(resolve(location), file),
  restore: (file, location) => restoreStore(file, resolve(location)),
  openReader: (location) => openTableReader(resolve(location)),
  openWriter: (location) => openTableWriter(resolve(location)),
  verifyAudit: (location, expected) => verifyAuditLog(resolve(location), expected),
};
