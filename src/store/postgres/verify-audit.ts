import { type AuditRow, toAuditEntry } from "../sql/audit-log.ts";
import { emptyHead } from "../audit-store.ts";
import type { AuditHead, AuditVerification } from "../audit-store.ts";
import { readPruned } from "./audit-log.ts";
import type { Database, Query } from "./database.ts";
import { createRevisionCheck, endVerification, createChainCheck } from "../sql/audit-verification.ts";
import { summaryColumns, type SummaryRow } from "../sql/revision-row.ts";

const batchSize = 500;

/** Checks the audit log in one snapshot, without blocking writers. */
export async function verifyAuditLog(database: Database, expected?: AuditHead): Promise<AuditVerification> {
  return database.transaction(async (query) => {
    await query("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY");
    const chain = createChainCheck(await readPruned(query), expected);
    const check = createRevisionCheck();
    const rows = readBatches<AuditRow>(query, "SELECT * FROM flowgate.audit WHERE seq > $1 ORDER BY seq");
    for await (const row of rows) {
      const entry = toAuditEntry(row);
      if (!chain.add(entry)) {
        break;
      }
      check.addEntry(entry);
    }
    const revisions = readBatches<SummaryRow & { readonly flows_hash: string }>(
      query,
      `SELECT ${summaryColumns}, encode(sha256(flows), 'hex') AS flows_hash
       FROM flowgate.revision JOIN flowgate.revision_content USING (seq) WHERE seq > $1 ORDER BY seq`,
    );
    for await (const { flows_hash, ...row } of revisions) {
      check.addRevision(row, flows_hash);
    }
    const [head] = await query<AuditHead>("SELECT seq, hash FROM flowgate.audit_head");
    return endVerification(chain.end(head ?? emptyHead), check);
  });
}

/** Reads the rows of a statement whose first parameter is the `seq` after which they begin. */
async function* readBatches<Row extends { readonly seq: number }>(query: Query, text: string): AsyncGenerator<Row> {
  let after = 0;
  let rows: Row[];
  do {
    rows = await query<Row>(`${text} LIMIT $2`, [after, batchSize]);
    yield* rows;
    after = rows.at(-1)?.seq ?? after;
  } while (rows.length === batchSize);
}
