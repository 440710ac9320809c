import type { ContextChange, ContextValue } from "../context-store.ts";
import { holdsLease } from "./node-credentials.ts";
import { insertRows, type Query } from "./query.ts";

/** The table `context_value`. The texts of flows are JSON, which can represent all of them in all databases. */
type ContextRow = { seq: number; store: string; scope: string; key: string; value: string };

export async function readContext(query: Query): Promise<ContextValue[]> {
  const rows = await query<ContextRow>("SELECT store, scope, key, value FROM flowgate.context_value ORDER BY seq");
  return rows.map(({ store, scope, key, value }) => ({
    store,
    scope: JSON.parse(scope) as string,
    key: JSON.parse(key) as string,
    json: value,
  }));
}

export type ContextCall = { readonly changes: readonly ContextChange[]; readonly token: number | undefined };

const rowsAtOnce = 500;

export async function writeContext(query: Query, { changes, token }: ContextCall): Promise<boolean> {
  if (token !== undefined && !(await holdsLease(query, token))) {
    return false;
  }
  const [newest] = await query<{ last: number | null }>("SELECT max(seq) AS last FROM flowgate.context_value");
  let seq = newest?.last ?? 0;
  const rows: ContextRow[] = [];
  for (const { store, scope, key, json } of changes) {
    const place = { store, scope: JSON.stringify(scope), key: JSON.stringify(key) };
    await query(
      "DELETE FROM flowgate.context_value WHERE store = $1 AND scope = $2 AND key = $3",
      Object.values(place),
    );
    if (json !== undefined) {
      seq += 1;
      rows.push({ seq, ...place, value: json });
    }
  }
  for (let start = 0; start < rows.length; start += rowsAtOnce) {
    await insertRows(query, "context_value", rows.slice(start, start + rowsAtOnce));
  }
  return true;
}
