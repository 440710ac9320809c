import { createChainCheck } from "../audit-chain.ts";
import { toAuditEntry } from "../audit-row.ts";
import type { AuditHead } from "../audit-store.ts";
import { createRevisionCheck, endVerification, hashFlows } from "../revision-digest.ts";
import type { ContentRow, SummaryRow } from "../revision-row.ts";
import { openCredentials } from "../seal.ts";
import type { Row, TableName } from "../tables.ts";
import { createDigest, type Digest } from "./digest.ts";

type Expected = {
  readonly written: ReadonlyMap<TableName, Digest>;
  /** The entry after which the audit log starts. */
  readonly pruned: AuditHead;
  /** The newest entry. */
  readonly head: AuditHead;
  /** The key of the newest credentials. */
  readonly key: Buffer | undefined;
};

/**
 * Checks the rows of a copy: their number, a hash over them, and whether the newest credentials can be decrypted. Resolves with the
 * first inconsistency of the audit log, if there is one.
 */
export async function checkCopy(
  copy: AsyncIterable<readonly [TableName, readonly Row[]]>,
  { written, pruned, head, key }: Expected,
): Promise<string | undefined> {
  const found = new Map<TableName, Digest>([...written.keys()].map((table) => [table, createDigest()]));
  const newest = new Map<TableName, Row>();
  const chain = createChainCheck(pruned, undefined);
  const check = createRevisionCheck();
  const summaries = new Map<number, SummaryRow>();
  for await (const [table, rows] of copy) {
    found.get(table)?.add(rows);
    newest.set(table, rows.at(-1) ?? {});
    switch (table) {
      case "revision":
        for (const row of rows as readonly SummaryRow[]) {
          summaries.set(row.seq, row);
        }
        break;
      case "revision_content":
        for (const { seq, flows } of rows as readonly (ContentRow & Pick<SummaryRow, "seq">)[]) {
          check.addRevision(summaries.get(seq) as SummaryRow, hashFlows(flows));
        }
        break;
      case "audit":
        rows.map(toAuditEntry).every((entry) => {
          check.addEntry(entry);
          return chain.add(entry);
        });
        break;
      default:
    }
  }
  for (const [table, digest] of written) {
    assertCount(table, found.get(table)?.count(), digest.count());
    if (found.get(table)?.hash() !== digest.hash()) {
      throw new Error(`the copied rows of the table ${table} differ from the original; the copy was discarded`);
    }
  }
  const content = newest.get("revision_content");
  if (key !== undefined && content !== undefined) {
    openCredentials(key, (newest.get("revision") as SummaryRow).rev, (content as ContentRow).credentials);
  }
  return endVerification(chain.end(head), check).problem;
}

export function assertCount(table: TableName, found: number | undefined, expected: number | undefined): void {
  if (found !== expected) {
    throw new Error(`${found} of ${expected} rows of the table ${table} were copied; the copy was discarded`);
  }
}
