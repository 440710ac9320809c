import { existsSync, renameSync, rmSync } from "node:fs";
import { dirname } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { batchSizeOf, type Row, type TableName, type TableReader, type TableWriter } from "../adapter.ts";
import { lockDataDir } from "../lock.ts";
import { createOwnerSetter } from "../owner.ts";
import { createTableAccess, hasData } from "../sql/copy-tables.ts";
import { queryOf } from "./connection.ts";
import {
  alreadyExists,
  assertExists,
  assertIntact,
  backupHint,
  connectCommand,
  createFile,
  disableWal,
  storeHint,
  sync,
} from "./database-file.ts";
import { assertCurrentSchema, migrate } from "./schema.ts";

/** Reads the database at `path`, whose folder is locked until the reader is disposed. */
export async function openTableReader(path: string): Promise<TableReader> {
  assertExists(path, storeHint);
  using stack = new DisposableStack();
  const folder = dirname(path);
  stack.use(lockDataDir(folder, createOwnerSetter(folder, path)));
  return openReader(path, stack);
}

/** Reads a backup. */
export async function openBackupReader(file: string): Promise<TableReader> {
  assertExists(file, backupHint);
  using stack = new DisposableStack();
  return openReader(file, stack);
}

function openReader(path: string, stack: DisposableStack): TableReader {
  const db = stack.use(connectCommand(path));
  assertCurrentSchema(db, path);
  assertIntact(db, path);
  db.exec("BEGIN");
  const resources = stack.move();
  return {
    ...createTableAccess(queryOf(db)),
    read: (table) => readTable(db, table),
    [Symbol.asyncDispose]: async () => resources.dispose(),
  };
}

async function* readTable(db: DatabaseSync, table: TableName): AsyncGenerator<readonly Row[]> {
  const order = table === "idempotency_key" ? "user, key" : "seq";
  let rows: Row[] = [];
  for (const row of db.prepare(`SELECT * FROM ${table} ORDER BY ${order}`).iterate()) {
    rows.push(row as Row);
    if (rows.length === batchSizeOf(table)) {
      yield rows;
      rows = [];
    }
  }
  if (rows.length > 0) {
    yield rows;
  }
}

/**
 * Creates a database, which appears at `path` when it is complete. Its folder is locked until the writer is disposed.
 * Created files belong to the owner of the folder, even if root runs this.
 */
export async function openTableWriter(path: string): Promise<TableWriter> {
  using stack = new DisposableStack();
  const folder = dirname(path);
  const setOwner = createOwnerSetter(folder, path);
  stack.use(lockDataDir(folder, setOwner));
  await assertNew(path);
  return openWriter(`${path}.migrated`, stack, (draft) => {
    setOwner(draft);
    if (existsSync(path)) {
      // The new database must not be opened with the write-ahead log of the one that it replaces.
      disableWal(path);
    }
    renameSync(draft, path);
  });
}

/** Creates a backup, which appears as `file` when it is complete. */
export async function openBackupWriter(file: string): Promise<TableWriter> {
  using stack = new DisposableStack();
  if (existsSync(file)) {
    throw alreadyExists(file);
  }
  const publish = (draft: string): void => {
    createFile(file);
    renameSync(draft, file);
  };
  return openWriter(`${file}.incomplete`, stack, publish);
}

/** `publish` gives the complete database its name. */
function openWriter(draft: string, stack: DisposableStack, publish: (draft: string) => void): TableWriter {
  rmSync(draft, { force: true });
  createFile(draft);
  stack.defer(() => rmSync(draft, { force: true }));
  const db = stack.use(new DatabaseSync(draft));
  // Without a journal: a draft that is not complete is removed.
  db.exec("PRAGMA auto_vacuum = INCREMENTAL; PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF");
  migrate(db, draft);
  db.exec("BEGIN");
  const resources = stack.move();
  return {
    ...createTableAccess(queryOf(db)),
    read: (table) => readTable(db, table),

    async commit() {
      db.exec("COMMIT");
      db.close();
      sync(draft);
      publish(draft);
      sync(dirname(draft));
    },

    [Symbol.asyncDispose]: async () => resources.dispose(),
  };
}

/** Rejects if there is a store with data. */
async function assertNew(path: string): Promise<void> {
  if (!existsSync(path)) {
    return;
  }
  using db = connectCommand(path);
  assertCurrentSchema(db, path);
  if (await hasData(queryOf(db))) {
    throw new Error(
      `${path} has data, which would be overwritten: name another file, or move this one away, with its -wal file if there is one.`,
    );
  }
}
