import type { AuditRecorder } from "../../src/auth/audit-recorder.ts";
import type { TokenUses } from "../../src/auth/token-uses.ts";
import type { AuditRecord, Origin } from "../../src/store/audit-store.ts";

export const origin: Origin = { by: undefined, address: "10.0.0.1", protocol: "rest", requestId: "r-1" };

/** Keeps the recorded events and uses. */
export function collectEvents() {
  const events: AuditRecord[] = [];
  const used: [id: string, atMs: number][] = [];
  const record = (event: AuditRecord): void => void events.push(event);
  const audit: AuditRecorder = { record, write: record };
  const uses: TokenUses = { record: ({ id }, nowMs) => void used.push([id, nowMs]) };
  return { audit, uses, events, used };
}
