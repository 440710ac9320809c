import { randomUUID } from "node:crypto";
import type { AttemptLimit, AttemptReply, LoginAttempts } from "../login-attempts.ts";
import type { Query } from "../sql/query.ts";
import type { Database } from "./database.ts";

/** An attempt takes less than a second. Older ones in progress belong to an exited process, and count as failed. */
const maxDuration = "1 minute";

type CountRow = { key: string; failed: number; total: number; oldest_ms_ago: number };

export function createLoginAttempts(database: Database): LoginAttempts {
  async function end(
    id: string,
    outcome: "succeeded" | "failed" | "abandoned",
    limits: readonly AttemptLimit[],
    windowMs: number,
  ): Promise<readonly string[]> {
    if (outcome === "failed") {
      await database.query("UPDATE flowgate.login_attempt SET failed = true, at = now() WHERE id = $1", [id]);
    } else {
      const reset = outcome === "succeeded" ? limits.filter(({ isReset }) => isReset).map(({ key }) => key) : [];
      await database.query("DELETE FROM flowgate.login_attempt WHERE id = $1 OR (key = ANY ($2) AND failed)", [
        id,
        reset,
      ]);
    }
    const counts = await count(database.query, limits, windowMs);
    return limits.filter(({ key, max }) => (counts.get(key)?.failed ?? 0) >= max).map(({ key }) => key);
  }

  return {
    begin: (limits, windowMs) =>
      database.transaction(async (query): Promise<AttemptReply> => {
        // In one order, so that transactions can't wait for each other.
        for (const key of limits.map(({ key }) => key).toSorted()) {
          await query("SELECT pg_advisory_xact_lock(hashtextextended($1, 0))", [key]);
        }
        await query("DELETE FROM flowgate.login_attempt WHERE at < now() - $1 * interval '1 ms'", [windowMs]);
        const counts = await count(query, limits, windowMs);
        const blocked = limits.flatMap(({ key, max }) => {
          const found = counts.get(key);
          return found !== undefined && found.failed >= max ? [windowMs - found.oldest_ms_ago] : [];
        });
        if (blocked.length > 0) {
          return { kind: "blocked", forMs: Math.max(...blocked) };
        }
        if (limits.some(({ key, max }) => (counts.get(key)?.total ?? 0) >= max)) {
          return { kind: "busy" };
        }
        const id = randomUUID();
        await query(
          "INSERT INTO flowgate.login_attempt (id, key, at) SELECT $1, key, now() FROM unnest($2::text[]) AS key",
          [id, limits.map(({ key }) => key)],
        );
        return { kind: "begun", attempt: { end: (outcome) => end(id, outcome, limits, windowMs) } };
      }),
  };
}

async function count(
  query: Query,
  limits: readonly AttemptLimit[],
  windowMs: number,
): Promise<ReadonlyMap<string, CountRow>> {
  const rows = await query<CountRow>(
    `SELECT key, count(*) AS total,
       count(*) FILTER (WHERE failed OR at < now() - interval '${maxDuration}') AS failed,
       coalesce(1000 * extract(epoch FROM now() - min(at) FILTER (WHERE failed OR at < now() - interval '${maxDuration}')), 0)::bigint AS oldest_ms_ago
     FROM flowgate.login_attempt WHERE key = ANY ($1) AND at > now() - $2 * interval '1 ms' GROUP BY key`,
    [limits.map(({ key }) => key), windowMs],
  );
  return new Map(rows.map((row) => [row.key, row]));
}
