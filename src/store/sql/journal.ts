import type { CursorClaim, JournalEntry, JournalPage, JournalQuery, JournalStore } from "../journal-store.ts";
import { type Comparison, nowMs, type Query, placeholders, removeInBatches, toCondition, toPortable } from "./query.ts";

/** A row of the table `event`, with its columns under the names of the entry. */
export type EventRow = Omit<JournalEntry, "level"> & { readonly level: number | null };

const columns = {
  seq: "seq",
  runtime: "runtime",
  timeMs: "time_ms",
  kind: "kind",
  level: "level",
  flowId: "flow_id",
  nodeId: "node_id",
  nodeType: "node_type",
  nodeName: "node_name",
  data: "data",
} as const satisfies Record<keyof JournalEntry, string>;
const names = Object.keys(columns) as (keyof JournalEntry)[];
/** The selected columns of an entry. */
export const entryColumns = names.map((name) => `${columns[name]} AS "${name}"`).join(", ");

/** A statement of PostgreSQL has at most 65,535 parameters, one of SQLite 32,766. */
const rowsPerInsert = 500;

/** The entries that are removed by one statement. */
const pruneBatch = 1_000;

/**
 * To be called in a transaction. Skips entries that are there already because the outcome of an earlier attempt was not
 * known.
 */
export async function appendEvents(query: Query, entries: readonly JournalEntry[]): Promise<void> {
  for (let start = 0; start < entries.length; start += rowsPerInsert) {
    const rows = entries.slice(start, start + rowsPerInsert);
    const places = rows.map((_, row) => `(${placeholders(names.length, row * names.length)})`);
    await query(
      `INSERT INTO flowgate.event (${Object.values(columns).join(", ")}) VALUES ${places.join(", ")} ON CONFLICT DO NOTHING`,
      rows.flatMap((row) => names.map((name) => toPortable(row[name] ?? null))),
    );
  }
}

export async function listEvents(query: Query, page: JournalQuery): Promise<JournalPage> {
  const { order, after, afterSeq, kinds, maxLevel, flowId, node, fromMs, untilMs, limit } = page;
  const [operator, direction] = order === "newest" ? ["<", "DESC"] : [">", "ASC"];
  if (kinds.length === 0) {
    return { entries: [], next: undefined };
  }
  const { condition, values } = toCondition([
    [`(seq, runtime) ${operator}`, after && [after.seq, after.runtime]],
    ["seq >", afterSeq],
    ...toEntryCondition({ kinds, maxLevel }),
    ["flow_id =", flowId],
    ["time_ms >=", fromMs],
    ["time_ms <", untilMs],
  ]);
  const byNode = node === undefined ? "" : ` AND $${values.push(node)} IN (node_id, node_type, node_name)`;
  const rows = await query<EventRow>(
    `SELECT ${entryColumns} FROM flowgate.event WHERE ${condition}${byNode}
     ORDER BY seq ${direction}, runtime ${direction} LIMIT $${values.push(limit + 1)}`,
    values,
  );
  const entries = rows.slice(0, limit).map((row) => toEntry(row));
  const last = entries.at(-1);
  return { entries, next: rows.length > limit && last ? { seq: last.seq, runtime: last.runtime } : undefined };
}

/** Returns the conditions common to a page and a reading. */
export function toEntryCondition({ kinds, maxLevel }: Pick<JournalQuery, "kinds" | "maxLevel">): Comparison[] {
  return [
    ["kind IN", kinds],
    ["coalesce(level, 0) <=", maxLevel],
  ];
}

export async function findLastSeq(query: Query, runtime: string): Promise<number> {
  const [row] = await query<Pick<EventRow, "seq">>(
    "SELECT seq FROM flowgate.event WHERE runtime = $1 ORDER BY seq DESC LIMIT 1",
    [runtime],
  );
  return row?.seq ?? 0;
}

/** Removes some of the oldest entries, or entries older than a time if there is one. Resolves with their number. */
export async function removeOldest(query: Query, beforeMs = Number.MAX_SAFE_INTEGER): Promise<number> {
  const removed = await query(
    `DELETE FROM flowgate.event WHERE seq <=
       (SELECT max(seq) FROM (SELECT seq, time_ms FROM flowgate.event ORDER BY seq LIMIT ${pruneBatch}) AS oldest
        WHERE time_ms < $1)
     RETURNING seq`,
    [beforeMs],
  );
  return removed.length;
}

/** Removes all entries that are older than a time. Resolves with their number. */
export function removeOlder(query: Query, beforeMs: number): Promise<number> {
  return removeInBatches(pruneBatch, () => removeOldest(query, beforeMs));
}

export function toEntry<Row extends EventRow>(row: Row): Omit<Row, "level"> & Pick<JournalEntry, "level"> {
  return { ...row, level: row.level ?? undefined };
}

/** `newest` returns where a new cursor begins. */
export async function claimCursor(
  query: Query,
  { name, holder, forMs }: CursorClaim,
  newest: () => Promise<string>,
): Promise<string | undefined> {
  const update = `UPDATE flowgate.journal_cursor SET holder = $2, held_until_ms = ${nowMs} + $3
     WHERE name = $1 AND (holder = $2 OR held_until_ms <= ${nowMs}) RETURNING position`;
  const [row] = await query<{ position: string }>(update, [name, holder, forMs]);
  if (row !== undefined) {
    return row.position;
  }
  const known = await query("SELECT name FROM flowgate.journal_cursor WHERE name = $1", [name]);
  if (known.length > 0) {
    return undefined;
  }
  await query(
    `INSERT INTO flowgate.journal_cursor (name, position, holder, held_until_ms) VALUES ($1, $2, $3, 0) ON CONFLICT DO NOTHING`,
    [name, await newest(), holder],
  );
  const [inserted] = await query<{ position: string }>(update, [name, holder, forMs]);
  return inserted?.position;
}

export async function moveCursor(
  query: Query,
  { name, holder, position }: Parameters<JournalStore["moveCursor"]>[0],
): Promise<boolean> {
  const rows = await query(
    "UPDATE flowgate.journal_cursor SET position = $3 WHERE name = $1 AND holder = $2 RETURNING name",
    [name, holder, position],
  );
  return rows.length > 0;
}
