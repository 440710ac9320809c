import { createMemoryAttempts, type LoginAttempts } from "../login-attempts.ts";
import type { Query } from "../sql/query.ts";
import type { Write } from "../sql/stores.ts";

/** The operations that write failed logins. */
export const loginWrites = {
  async recordFailedLogin(
    query: Query,
    { keys, atMs, sinceMs }: { readonly keys: readonly string[]; readonly atMs: number; readonly sinceMs: number },
  ): Promise<void> {
    await query("DELETE FROM failed_login WHERE at_ms <= $1", [sinceMs]);
    for (const key of keys) {
      await query("INSERT INTO failed_login (key, at_ms) VALUES ($1, $2)", [key, atMs]);
    }
  },

  async resetFailedLogins(query: Query, keys: readonly string[]): Promise<void> {
    for (const key of keys) {
      await query("DELETE FROM failed_login WHERE key = $1", [key]);
    }
  },
};

/** Counts attempts in memory, and keeps the failed ones in the database, so that they outlive a restart. */
export async function createLoginAttempts(
  query: Query,
  write: Write<typeof loginWrites>,
  run: (operation: () => Promise<void>) => Promise<void>,
): Promise<LoginAttempts> {
  const rows = await query<{ key: string; at_ms: number }>("SELECT key, at_ms FROM failed_login ORDER BY at_ms");
  return createMemoryAttempts(Date.now, {
    failed: rows.map(({ key, at_ms }) => ({ key, atMs: at_ms })),
    record: (keys, atMs, sinceMs) => run(() => write("recordFailedLogin", { keys, atMs, sinceMs })),
    reset: (keys) => run(() => write("resetFailedLogins", keys)),
  });
}
