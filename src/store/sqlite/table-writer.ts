import { existsSync, renameSync, rmSync } from "node:fs";
import { dirname } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { lockDataDir } from "../lock.ts";
import type { TableWriter } from "../tables.ts";
import { connectCommand } from "./connect.ts";
import { alreadyExists, createFile, disableWal, sync } from "./database-file.ts";
import { createOwnerSetter } from "./owner.ts";
import { assertCurrentSchema, migrate } from "./schema.ts";
import { createTableReader } from "./table-reader.ts";

/**
 * Creates a database, which appears at `path` when it is complete. Its folder is locked until the writer is disposed. Created files
 * belong to the owner of the folder, also if root runs this.
 */
export async function openTableWriter(path: string): Promise<TableWriter> {
  using stack = new DisposableStack();
  const folder = dirname(path);
  const setOwner = createOwnerSetter(folder, path);
  stack.use(lockDataDir(folder, setOwner));
  assertNew(path);
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
    ...createTableReader(db),

    async write(table, rows) {
      const names = Object.keys(rows[0] ?? {});
      const insert = db.prepare(
        `INSERT INTO ${table} (${names.join(", ")}) VALUES (${names.map((name) => `:${name}`).join(", ")})`,
      );
      for (const row of rows) {
        insert.run(row);
      }
    },

    async writeHead({ seq, hash }) {
      db.prepare("INSERT INTO audit_head (id, seq, hash) VALUES (0, ?, ?)").run(seq, hash);
    },

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

/** Throws if there is a store with data. */
function assertNew(path: string): void {
  if (!existsSync(path)) {
    return;
  }
  using db = connectCommand(path);
  assertCurrentSchema(db, path);
  const used = db
    .prepare(
      `SELECT EXISTS (SELECT 1 FROM revision WHERE parent IS NOT NULL) OR EXISTS (SELECT 1 FROM token)
         OR EXISTS (SELECT 1 FROM audit) AS used`,
    )
    .get();
  if (used?.["used"] !== 0) {
    throw new Error(
      `${path} has data, which would be overwritten: name another file, or move this one away, with its -wal file if there is one.`,
    );
  }
}
