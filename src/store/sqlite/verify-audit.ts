import { DatabaseSync } from "node:sqlite";
import { setImmediate } from "node:timers/promises";
import { toAuditEntry } from "../sql/audit-log.ts";
import { toOpenError } from "./errors.ts";
import type { AuditHead, AuditVerification } from "../audit-store.ts";
import { createRevisionCheck, endVerification, createChainCheck } from "../sql/audit-verification.ts";
import { hashFlows } from "../sql/revision-row.ts";
import type { ContentRow, SummaryRow } from "../sql/revision-row.ts";
import { readHead, readPruned } from "./audit-log.ts";
import { assertExists, storeHint } from "./database-file.ts";
import { assertFlowgateDatabase } from "./schema.ts";

/** The number of entries that are checked in one turn of the event loop, which takes a few milliseconds. */
const entriesPerTurn = 500;

/** Checks the audit log of the database at `path` on a connection of its own, which reads a snapshot. */
export async function verifyAuditLog(path: string, expected?: AuditHead): Promise<AuditVerification> {
  assertExists(path, storeHint);
  using db = open(path);
  db.exec("BEGIN");
  const chain = createChainCheck(readPruned(db), expected);
  const check = createRevisionCheck();
  let read = 0;
  for (const row of db.prepare("SELECT * FROM audit ORDER BY seq").iterate()) {
    const entry = toAuditEntry(row);
    if (!chain.add(entry)) {
      break;
    }
    check.addEntry(entry);
    read += 1;
    if (read % entriesPerTurn === 0) {
      await setImmediate();
    }
  }
  for (const row of db.prepare("SELECT * FROM revision JOIN revision_content USING (seq) ORDER BY seq").iterate()) {
    const { flows, ...summary } = row as SummaryRow & ContentRow;
    check.addRevision(summary, hashFlows(flows));
    await setImmediate();
  }
  return endVerification(chain.end(readHead(db)), check);
}

function open(path: string): DatabaseSync {
  // A connection opened as read-only would leave files of its write-ahead log behind, possibly owned by root.
  const db = new DatabaseSync(path, { timeout: 5000 });
  try {
    db.exec("PRAGMA query_only = ON");
    assertFlowgateDatabase(db, path);
    if (db.prepare("SELECT name FROM sqlite_schema WHERE name = 'audit'").get() === undefined) {
      throw new Error(`${path} was created by an older version without an audit log: start the service once.`);
    }
    return db;
  } catch (error) {
    db.close();
    throw toOpenError(error, path);
  }
}
