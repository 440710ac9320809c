import type { DatabaseSync } from "node:sqlite";
import { type RevisionRow, summaryColumns, type SummaryRow } from "../revision-row.ts";

export function insertRevision(db: DatabaseSync, { flows, credentials, kept, ...row }: RevisionRow): void {
  const names = Object.keys(row);
  db.prepare(`INSERT INTO revision (${names.join(", ")}) VALUES (${names.map((name) => `:${name}`).join(", ")})`).run(
    row,
  );
  db.prepare("INSERT INTO revision_content (seq, flows, credentials, kept) VALUES (?, ?, ?, ?)").run(
    row.seq,
    flows,
    credentials,
    kept,
  );
}

export function selectNewest(db: DatabaseSync): SummaryRow | undefined {
  return db.prepare(`SELECT ${summaryColumns} FROM revision ORDER BY seq DESC LIMIT 1`).get() as SummaryRow | undefined;
}
