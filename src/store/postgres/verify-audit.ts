import { type AuditRow, toAuditEntry } from "../audit-row.ts";
import { createChainCheck, emptyHead } from "../audit-chain.ts";
import type { AuditHead, AuditVerification } from "../audit-store.ts";
import { readPruned } from "./audit-log.ts";
import type { Database } from "./database.ts";

const batchSize = 500;

/** Checks the audit log in one snapshot, without blocking writers. */
export async function verifyAuditLog(database: Database, expected?: AuditHead): Promise<AuditVerification> {
  return database.transaction(async (query) => {
    await query("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY");
    const check = createChainCheck(await readPruned(query), expected);
    let after = 0;
    let rows: AuditRow[];
    do {
      rows = await query<AuditRow>("SELECT * FROM flowgate.audit WHERE seq > $1 ORDER BY seq LIMIT $2", [
        after,
        batchSize,
      ]);
      after = rows.at(-1)?.seq ?? after;
    } while (rows.every((row) => check.add(toAuditEntry(row))) && rows.length === batchSize);
    const [head] = await query<AuditHead>("SELECT seq, hash FROM flowgate.audit_head");
    return check.end(head ?? emptyHead);
  });
}
