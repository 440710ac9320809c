import { dirname } from "node:path";
import type { DatabaseSync } from "node:sqlite";
import { lockDataDir } from "../lock.ts";
import { batchSizeOf, type Row, type TableReader } from "../tables.ts";
import { readHead } from "./audit-log.ts";
import { connectCommand } from "./connect.ts";
import { assertExists, assertIntact, backupHint, storeHint } from "./database-file.ts";
import { createOwnerSetter } from "./owner.ts";
import { assertCurrentSchema } from "./schema.ts";

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
  return { ...createTableReader(db), [Symbol.asyncDispose]: async () => resources.dispose() };
}

export function createTableReader(db: DatabaseSync): Omit<TableReader, typeof Symbol.asyncDispose> {
  return {
    count: async (table) => Number(db.prepare(`SELECT count(*) AS count FROM ${table}`).get()?.["count"]),

    async *read(table) {
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
    },

    readHead: async () => readHead(db),
  };
}
