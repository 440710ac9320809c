import { randomBytes } from "node:crypto";
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { expect, test } from "vitest";
import { hashEntry, toAuditEntry } from "../../src/store/sql/audit-log.ts";
import type { AuditEntry, AuditRecord } from "../../src/store/audit-store.ts";
import { backupStore, restoreStore } from "../../src/store/sqlite/adapter.ts";
import { openSqliteStore, verifyAuditLog } from "../../src/store/sqlite/open-store.ts";
import { createFolder } from "./builders.ts";

const key = randomBytes(32);
const record: AuditRecord = {
  kind: "deployment",
  origin: { by: "ada", address: "10.0.0.1", protocol: "rest", requestId: "r-1" },
  subject: "a revision",
  detail: "full",
};

async function fill(path: string, count: number): Promise<void> {
  await using store = await openSqliteStore({ path, key });
  await store.audit.append(Array.from({ length: count }, (_, index) => ({ ...record, subject: `revision ${index}` })));
}

function execute(path: string, sql: string): void {
  using db = new DatabaseSync(path);
  db.exec(sql);
}

const changed = "entry 3 was changed, or is not the one that followed entry 2";
const columns = ["time_ms", "kind", "user", "address", "protocol", "request_id", "subject", "detail", "count", "hash"];
const addedColumns = ["token_id", "digest"];
const numbers = new Set(["time_ms", "count"]);

test.each<[name: string, sql: string, problem: string]>([
  ...columns.map((column): [string, string, string] => [
    `a changed ${column}`,
    `UPDATE audit SET ${column} = ${numbers.has(column) ? `${column} + 1` : `substr(${column}, 1, length(${column}) - 1) || '~'`} WHERE seq = 3`,
    changed,
  ]),
  ...addedColumns.map((column): [string, string, string] => [
    `an added ${column}`,
    `UPDATE audit SET ${column} = 'x' WHERE seq = 3`,
    changed,
  ]),
  ["a removed user", "UPDATE audit SET user = NULL WHERE seq = 3", changed],
  ["a swapped subject and detail", "UPDATE audit SET subject = detail, detail = subject WHERE seq = 3", changed],
  ["a removed first entry", "DELETE FROM audit WHERE seq = 1", "entry 1 is missing, entry 2 follows entry 0"],
  ["a removed entry", "DELETE FROM audit WHERE seq = 3", "entry 3 is missing, entry 4 follows entry 2"],
  [
    "a removed entry whose place is closed",
    "DELETE FROM audit WHERE seq = 3; UPDATE audit SET seq = 3 WHERE seq = 4; UPDATE audit SET seq = 4 WHERE seq = 5",
    changed,
  ],
  [
    "a removed last entry",
    "DELETE FROM audit WHERE seq = 5",
    "entry 5 is missing, the last one is 4, but entry 5 was written",
  ],
  ["a removed log", "DELETE FROM audit", "entry 1 is missing, the last one is 0, but entry 5 was written"],
  [
    "a removed last entry and a lowered head",
    "DELETE FROM audit WHERE seq = 5; UPDATE audit_head SET seq = 4",
    "entry 4 is not the last one that was written",
  ],
  ["a removed head", "DELETE FROM audit_head", "entry 5 is not the last one that was written"],
  [
    "swapped entries",
    "UPDATE audit SET seq = 30 WHERE seq = 3; UPDATE audit SET seq = 3 WHERE seq = 4; UPDATE audit SET seq = 4 WHERE seq = 30",
    changed,
  ],
  [
    "an inserted entry",
    `INSERT INTO audit (seq, ${columns.join(", ")}) SELECT 6, ${columns.join(", ")} FROM audit WHERE seq = 5`,
    "entry 6 was changed, or is not the one that followed entry 5",
  ],
  [
    "a forged pruning",
    "DELETE FROM audit WHERE seq <= 2; UPDATE audit SET kind = 'audit_pruned', subject = '2:' || (SELECT hash FROM audit WHERE seq = 3) WHERE seq = 5",
    changed,
  ],
])("the chain detects %s", async (_, sql, problem) => {
  await using folder = await createFolder();
  const path = join(folder.path, "flowgate.db");
  await fill(path, 5);
  expect((await verifyAuditLog(path)).problem).toBeUndefined();
  execute(path, sql);
  expect((await verifyAuditLog(path)).problem).toBe(problem);
  // Further entries neither fail nor hide it.
  await fill(path, 2);
  expect((await verifyAuditLog(path)).problem).toBeDefined();
});

test("the chain detects a changed entry whose own hash is recomputed", async () => {
  await using folder = await createFolder();
  const path = join(folder.path, "flowgate.db");
  await fill(path, 5);
  {
    using db = new DatabaseSync(path);
    const [second, third] = db.prepare("SELECT * FROM audit WHERE seq IN (2, 3) ORDER BY seq").all().map(toAuditEntry);
    const forged = { ...(third as AuditEntry), detail: "forged" };
    const forgedHash = hashEntry(second?.hash ?? "", forged);
    db.prepare("UPDATE audit SET detail = ?, hash = ? WHERE seq = 3").run(forged.detail, forgedHash);
  }
  expect((await verifyAuditLog(path)).problem).toBe("entry 4 was changed, or is not the one that followed entry 3");
});

test("a chain that is recomputed after a change is detected by an earlier head only", async () => {
  await using folder = await createFolder();
  const [path, other] = [join(folder.path, "flowgate.db"), join(folder.path, "other.db")];
  await fill(path, 3);
  const { head } = await verifyAuditLog(path);
  await fill(other, 3);
  await fill(other, 1);
  expect((await verifyAuditLog(other)).problem).toBeUndefined();
  expect((await verifyAuditLog(other, head)).problem).toBe("entry 3 has another hash than expected");
});

test("verifies more entries than it reads in one turn, while others are appended", async () => {
  await using folder = await createFolder();
  const path = join(folder.path, "flowgate.db");
  await fill(path, 1700);
  await using store = await openSqliteStore({ path, key });
  const verifying = store.audit.verify();
  await store.audit.append([record]);
  expect(await verifying).toMatchObject({ entries: 1700, head: { seq: 1700 }, problem: undefined });
  expect(await store.audit.verify()).toMatchObject({ entries: 1701, problem: undefined });
});

test("verifying a stored log leaves no file behind, and rejects other files", async () => {
  await using folder = await createFolder();
  const path = join(folder.path, "flowgate.db");
  await fill(path, 1);
  await verifyAuditLog(path);
  expect(await readdir(folder.path)).toEqual(["flowgate.db"]);
  await expect(verifyAuditLog(join(folder.path, "none.db"))).rejects.toThrow("does not exist");
  execute(join(folder.path, "other.db"), "PRAGMA application_id = 7; CREATE TABLE t (x)");
  await expect(verifyAuditLog(join(folder.path, "other.db"))).rejects.toThrow("is the database of another program");
});

test("restoring a backup continues the chain of the backup", async () => {
  await using folder = await createFolder();
  const [path, copy] = [join(folder.path, "flowgate.db"), join(folder.path, "backup.db")];
  await fill(path, 2);
  await backupStore(path, copy);
  await fill(path, 2);
  const { head } = await verifyAuditLog(path);
  await restoreStore(copy, path);
  await fill(path, 1);
  expect(await verifyAuditLog(path)).toMatchObject({ entries: 4, problem: undefined });
  using db = new DatabaseSync(path);
  expect(db.prepare("SELECT kind FROM audit WHERE seq = 3").get()).toEqual({ kind: "store_restored" });
  expect((await verifyAuditLog(path, head)).problem).toBe("entry 4 has another hash than expected");
});
