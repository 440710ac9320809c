import type { DatabaseSync } from "node:sqlite";
import { createMemoryAttempts, type LoginAttempts } from "../login-attempts.ts";
import type { Writer } from "./writer.ts";

/** Counts attempts in memory, and keeps the failed ones in the database, so that they outlive a restart. */
export function createLoginAttempts(
  db: DatabaseSync,
  writer: Pick<Writer, "recordFailedLogin" | "resetFailedLogins">,
  run: (operation: () => Promise<void>) => Promise<void>,
): LoginAttempts {
  const rows = db.prepare("SELECT key, at_ms FROM failed_login ORDER BY at_ms").all();
  return createMemoryAttempts(Date.now, {
    failed: rows.map((row) => ({ key: String(row["key"]), atMs: Number(row["at_ms"]) })),
    record: (keys, atMs, sinceMs) => run(() => writer.recordFailedLogin({ keys, atMs, sinceMs })),
    reset: (keys) => run(() => writer.resetFailedLogins(keys)),
  });
}
