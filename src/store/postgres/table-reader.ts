import { emptyHead } from "../audit-chain.ts";
import type { AuditHead } from "../audit-store.ts";
import { batchSizeOf, type Row, type TableReader, tableNames } from "../tables.ts";
import { assertNoReplicas } from "./cluster.ts";
import { openDatabase } from "./database.ts";
import type { Location } from "./location.ts";
import { beginLongTransaction } from "./long-transaction.ts";
import type { Query } from "./query.ts";
import { assertCurrentSchema } from "./schema.ts";

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
    // Those that started in the meantime.
    await assertNoReplicas(database.query);
  }
  const resources = stack.move();
  return { ...createTableReader(transaction.query), [Symbol.asyncDispose]: () => resources.disposeAsync() };
}

/** Prevents changes by others until the transaction ends. Does not take the transaction's snapshot. */
export async function lockTables(query: Query): Promise<void> {
  // Services lock the audit log first, too.
  const tables = ["audit_head", ...tableNames].map((table) => `flowgate.${table}`);
  await query(`LOCK TABLE ${tables.join(", ")} IN EXCLUSIVE MODE`);
}

export function createTableReader(query: Query): Omit<TableReader, typeof Symbol.asyncDispose> {
  return {
    async count(table) {
      const [row] = await query<{ count: number }>(`SELECT count(*) AS count FROM flowgate.${table}`);
      return row?.count ?? 0;
    },

    async *read(table) {
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
    },

    async readHead() {
      const [head] = await query<AuditHead>("SELECT seq, hash FROM flowgate.audit_head");
      return head ?? emptyHead;
    },
  };
}
