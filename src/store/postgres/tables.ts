import { batchSizeOf, type Row, type TableName, tableNames, type TableReader, type TableWriter } from "../adapter.ts";
import { createTableAccess, hasData } from "../sql/copy-tables.ts";
import type { Query } from "../sql/query.ts";
import { assertNoReplicas } from "./cluster.ts";
import { beginLongTransaction, openDatabase } from "./database.ts";
import type { Location } from "./location.ts";
import { assertCurrentSchema, migrate } from "./schema.ts";

/** `exclusive`: as `StoreAdapter.openReader`; `shared`: services can use and change the store. */
export async function openTableReader(location: Location, mode: "exclusive" | "shared"): Promise<TableReader> {
  await using stack = new AsyncDisposableStack();
  const database = stack.use(await openDatabase(location));
  await assertCurrentSchema(database);
  const isExclusive = mode === "exclusive";
  const transaction = stack.use(
    await beginLongTransaction(database, `ISOLATION LEVEL REPEATABLE READ${isExclusive ? "" : ", READ ONLY"}`),
  );
  if (isExclusive) {
    await assertNoReplicas(database.query);
    await lockTables(transaction.query);
    // Replicas that started in the meantime.
    await assertNoReplicas(database.query);
  }
  const resources = stack.move();
  return {
    ...createTableAccess(transaction.query),
    read: (table) => readTable(transaction.query, table),
    [Symbol.asyncDispose]: () => resources.disposeAsync(),
  };
}

/** Prevents changes by others until the transaction ends. Does not take the transaction's snapshot. */
async function lockTables(query: Query): Promise<void> {
  // Services lock the audit log first, too.
  const tables = ["audit_head", ...tableNames].map((table) => `flowgate.${table}`);
  await query(`LOCK TABLE ${tables.join(", ")} IN EXCLUSIVE MODE`);
}

async function* readTable(query: Query, table: TableName): AsyncGenerator<readonly Row[]> {
  // By bytes, as SQLite does.
  const order = table === "idempotency_key" ? '"user" COLLATE "C", key COLLATE "C"' : "seq";
  await query(`DECLARE copied NO SCROLL CURSOR FOR SELECT * FROM flowgate.${table} ORDER BY ${order}`);
  const size = batchSizeOf(table);
  let rows: Row[];
  do {
    rows = await query<Row>(`FETCH ${size} FROM copied`);
    if (rows.length > 0) {
      yield rows;
    }
  } while (rows.length === size);
  await query("CLOSE copied");
}

/** As `StoreAdapter.openWriter`. A service that starts meanwhile fails, since it can't insert the first revision. */
export async function openTableWriter(location: Location): Promise<TableWriter> {
  await using stack = new AsyncDisposableStack();
  const database = stack.use(await openDatabase(location));
  await migrate(database);
  await assertNoReplicas(database.query);
  const transaction = stack.use(await beginLongTransaction(database, "ISOLATION LEVEL READ COMMITTED"));
  const { query } = transaction;
  await lockTables(query);
  if (await hasData(query)) {
    throw new Error(
      "the database has the data of a store, which would be overwritten: create another database, or remove the data with DROP SCHEMA flowgate CASCADE",
    );
  }
  for (const table of ["revision", "credential_key"]) {
    await query(`DELETE FROM flowgate.${table}`);
  }
  const resources = stack.move();
  return {
    ...createTableAccess(query),
    read: (table) => readTable(query, table),
    async commit() {
      // The numbers of new tokens continue after the copied ones.
      await query(
        "SELECT setval(pg_get_serial_sequence('flowgate.token', 'seq'), max(seq)) FROM flowgate.token HAVING max(seq) > 0",
      );
      await assertNoReplicas(database.query);
      await transaction.commit();
    },
    [Symbol.asyncDispose]: () => resources.disposeAsync(),
  };
}
