import { pino } from "pino";
import { expect, test } from "vitest";
import { emptyHead, systemOrigin, openAuditRetention, type AuditEntry } from "../../src/store/audit-store.ts";

const dayMs = 86_400_000;

/** Resolves with the age in days beyond which entries are removed from a log whose entries are so many days old; if none, undefined. */
async function prunedAge(ages: readonly number[], retentionDays: number): Promise<number | undefined> {
  const nowMs = 1000 * dayMs;
  const entries = ages.map((days): AuditEntry => ({
    ...emptyHead,
    kind: "sign_in",
    origin: systemOrigin,
    count: 1,
    timeMs: nowMs - days * dayMs,
  }));
  const { promise: checked, resolve } = Promise.withResolvers<number | undefined>();
  using _ = openAuditRetention({
    store: {
      async list({ limit }) {
        // Later than the removal, if there is one.
        setImmediate(() => resolve(undefined));
        return { entries: entries.slice(0, limit), next: undefined };
      },
      prune: async (maxAgeMs) => resolve(maxAgeMs / dayMs),
    },
    retentionDays,
    log: pino({ level: "silent" }),
    now: () => nowMs,
  });
  return retentionDays === 0 ? undefined : checked;
}

test.each([
  ["removes entries when the oldest is a day older than the retention", [402, 300], 400, 400],
  ["keeps the entries of a day together", [400.5, 300], 400, undefined],
  ["keeps the only entry", [500], 400, undefined],
  ["removes nothing from an empty log", [], 400, undefined],
  ["keeps everything with 0", [5000, 300], 0, undefined],
] as const)("%s", async (_, ages, retentionDays, expected) => {
  expect(await prunedAge(ages, retentionDays)).toBe(expected);
});
