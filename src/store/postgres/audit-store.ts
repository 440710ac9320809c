import { type AuditRow, toAuditEntry } from "../sql/audit-log.ts";
import type { AuditQuery, AuditStore } from "../audit-store.ts";
import { appendAudit, lockAudit, pruneAudit } from "./audit-log.ts";
import type { Database } from "./database.ts";
import { toPortable } from "../sql/query.ts";
import { verifyAuditLog } from "./verify-audit.ts";

export function createAuditStore(database: Database): AuditStore {
  return {
    append: (records) => database.transaction(async (query) => appendAudit(query, await lockAudit(query), records)),

    async list(page) {
      const { condition, values } = toCondition(page);
      const direction = page.order === "newest" ? "DESC" : "ASC";
      const rows = await database.query<AuditRow>(
        `SELECT * FROM flowgate.audit WHERE ${condition} ORDER BY seq ${direction} LIMIT $${values.length + 1}`,
        [...values, page.limit + 1],
      );
      const entries = rows.slice(0, page.limit).map(toAuditEntry);
      return { entries, next: rows.length > page.limit ? entries.at(-1)?.seq : undefined };
    },

    verify: (expected) => verifyAuditLog(database, expected),
    prune: (maxAgeMs) => database.transaction((query) => pruneAudit(query, maxAgeMs)),
  };
}

function toCondition({ order, after, kinds = [], user, fromMs, untilMs }: AuditQuery): {
  condition: string;
  values: readonly unknown[];
} {
  const terms = [
    [`seq ${order === "newest" ? "<" : ">"}`, after],
    ["kind = ANY", kinds.length === 0 ? undefined : kinds],
    ['"user" =', user],
    ["time_ms >=", fromMs],
    ["time_ms <", untilMs],
  ].filter(([, value]) => value !== undefined);
  return {
    condition: ["true", ...terms.map(([term], index) => `${String(term)} ($${index + 1})`)].join(" AND "),
    values: terms.map(([, value]) => toPortable(value)),
  };
}
