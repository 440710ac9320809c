import type { DatabaseSync, SQLInputValue } from "node:sqlite";
import type { AuditQuery, AuditStore } from "../audit-store.ts";
import { toAuditEntry } from "../sql/audit-log.ts";
import { verifyAuditLog } from "./verify-audit.ts";
import type { Writer } from "./writer.ts";

export function createAuditStore(db: DatabaseSync, path: string, writer: Writer): AuditStore {
  return {
    async append(records) {
      await writer.appendAudit(records);
    },

    async list(query) {
      const { where, values } = toCondition(query);
      const direction = query.order === "newest" ? "DESC" : "ASC";
      const rows = db
        .prepare(`SELECT * FROM audit ${where} ORDER BY seq ${direction} LIMIT ?`)
        .all(...values, query.limit + 1);
      const entries = rows.slice(0, query.limit).map(toAuditEntry);
      return { entries, next: rows.length > query.limit ? entries.at(-1)?.seq : undefined };
    },

    verify: (expected) => verifyAuditLog(path, expected),

    async prune(maxAgeMs) {
      await writer.pruneAudit(maxAgeMs);
    },
  };
}

function toCondition({ order, after, kinds = [], user, fromMs, untilMs }: AuditQuery): {
  where: string;
  values: SQLInputValue[];
} {
  const conditions: [sql: string, ...values: SQLInputValue[]][] = [];
  if (after !== undefined) {
    conditions.push([order === "newest" ? "seq < ?" : "seq > ?", after]);
  }
  if (kinds.length > 0) {
    conditions.push([`kind IN (${kinds.map(() => "?").join(", ")})`, ...kinds]);
  }
  if (user !== undefined) {
    conditions.push(["user = ?", user]);
  }
  if (fromMs !== undefined) {
    conditions.push(["time_ms >= ?", fromMs]);
  }
  if (untilMs !== undefined) {
    conditions.push(["time_ms < ?", untilMs]);
  }
  const sql = conditions.map(([each]) => each).join(" AND ");
  return { where: sql === "" ? "" : `WHERE ${sql}`, values: conditions.flatMap(([, ...values]) => values) };
}
