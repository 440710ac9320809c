import type { TableWriter } from "../tables.ts";
import { assertNoReplicas } from "./cluster.ts";
import { openDatabase } from "./database.ts";
import { insertRows } from "./insert.ts";
import type { Location } from "./location.ts";
import { beginLongTransaction } from "./long-transaction.ts";
import type { Query } from "./query.ts";
import { migrate } from "./schema.ts";
import { createTableReader, lockTables } from "./table-reader.ts";

/** As `StoreAdapter.openWriter`. A service that starts meanwhile fails, since it can't insert the first revision. */
export async function openTableWriter(location: Location): Promise<TableWriter> {
  await using stack = new AsyncDisposableStack();
  const database = stack.use(await openDatabase(location));
  await migrate(database);
  await assertNoReplicas(database.query);
  const transaction = stack.use(await beginLongTransaction(database, "ISOLATION LEVEL READ COMMITTED"));
  const { query } = transaction;
  await lockTables(query);
  await assertNew(query);
  await query("DELETE FROM flowgate.revision");
  const resources = stack.move();
  return {
    ...createTableReader(query),
    write: (table, rows) => insertRows(query, table, rows),
    async writeHead({ seq, hash }) {
      await query("UPDATE flowgate.audit_head SET seq = $1, hash = $2", [seq, hash]);
    },
    async commit() {
      // The numbers of new tokens continue after those that were copied.
      await query(
        "SELECT setval(pg_get_serial_sequence('flowgate.token', 'seq'), max(seq)) FROM flowgate.token HAVING max(seq) > 0",
      );
      await assertNoReplicas(database.query);
      await transaction.commit();
    },
    [Symbol.asyncDispose]: () => resources.disposeAsync(),
  };
}

/** Rejects if there is data. */
async function assertNew(query: Query): Promise<void> {
  const rows = await query(
    `SELECT WHERE EXISTS (SELECT FROM flowgate.revision WHERE parent IS NOT NULL)
       OR EXISTS (SELECT FROM flowgate.token) OR EXISTS (SELECT FROM flowgate.audit)`,
  );
  if (rows.length > 0) {
    throw new Error(
      "the database has the data of a store, which would be overwritten: create another database, or remove the data with DROP SCHEMA flowgate CASCADE",
    );
  }
}
