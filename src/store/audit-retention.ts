import type { Logger } from "pino";
import type { AuditStore } from "./audit-store.ts";

const dayMs = 86_400_000;
const checkIntervalMs = 3_600_000;

export type AuditRetentionOptions = {
  readonly store: Pick<AuditStore, "list" | "prune">;
  /** 0 keeps all entries. */
  readonly retentionDays: number;
  readonly log: Logger;
  readonly now?: () => number;
};

/** Removes entries of the audit log that are older than the retention time, about once a day. Disposing ends that. */
export function openAuditRetention({ store, retentionDays, log, now = Date.now }: AuditRetentionOptions): Disposable {
  async function prune(): Promise<void> {
    const maxAgeMs = retentionDays * dayMs;
    const { entries } = await store.list({ limit: 2, order: "oldest" });
    const [oldest] = entries;
    // A day later than necessary, so that the entries of a day are removed together.
    if (oldest !== undefined && entries.length === 2 && oldest.timeMs < now() - maxAgeMs - dayMs) {
      await store.prune(maxAgeMs);
    }
  }

  const check = (): void =>
    void prune().catch((error: unknown) => log.error({ err: error }, "old audit entries could not be removed"));
  if (retentionDays === 0) {
    return { [Symbol.dispose]: () => {} };
  }
  check();
  const timer = setInterval(check, checkIntervalMs).unref();
  return { [Symbol.dispose]: () => clearInterval(timer) };
}
