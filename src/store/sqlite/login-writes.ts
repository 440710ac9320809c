import type { DatabaseSync } from "node:sqlite";
import { inTransaction } from "./transaction.ts";

/** The operations that write failed logins. */
export type LoginWrites = {
  recordFailedLogin(call: { readonly keys: readonly string[]; readonly atMs: number; readonly sinceMs: number }): void;
  resetFailedLogins(keys: readonly string[]): void;
};

export function loginWrites(db: DatabaseSync): LoginWrites {
  return {
    recordFailedLogin: ({ keys, atMs, sinceMs }) =>
      inTransaction(db, () => {
        db.prepare("DELETE FROM failed_login WHERE at_ms <= ?").run(sinceMs);
        const insert = db.prepare("INSERT INTO failed_login (key, at_ms) VALUES (?, ?)");
        for (const key of keys) {
          insert.run(key, atMs);
        }
      }),

    resetFailedLogins: (keys) =>
      inTransaction(db, () => {
        const remove = db.prepare("DELETE FROM failed_login WHERE key = ?");
        for (const key of keys) {
          remove.run(key);
        }
      }),
  };
}
