import { createListeners } from "@flowgate/base/listeners";
import type { AuditRecord } from "../../src/store/audit-store.ts";
import { pino } from "pino";
import { expect, test } from "vitest";
import { openAuditRecorder } from "../../src/auth/audit-recorder.ts";
import { origin } from "./collect-events.ts";

/** Collects the entries that are written. */
function createSink() {
  const written: AuditRecord[] = [];
  const appended = createListeners<void>();
  const store = {
    async append(records: readonly AuditRecord[]) {
      written.push(...records);
      appended.notify();
    },
  };
  const until = (count: number): Promise<void> =>
    new Promise((resolve) => {
      const subscription = appended.add(check);
      function check() {
        if (written.length >= count) {
          subscription[Symbol.dispose]();
          resolve();
        }
      }
      check();
    });
  return { store, written, until };
}

const log = pino({ level: "silent" });

function failure(init: Partial<AuditRecord["origin"]> = {}, detail = "wrong password"): AuditRecord {
  return { kind: "sign_in_failed", origin: { ...origin, ...init }, detail };
}

test("writes the first event of a kind at once, and counts those that repeat it", async () => {
  const { store, written, until } = createSink();
  {
    await using recorder = openAuditRecorder({ store, log });
    for (const [index, requestId] of ["r-1", "r-2", "r-3"].entries()) {
      recorder.record(failure({ requestId }));
      await until(1);
      expect([index, written]).toEqual([index, [failure({ requestId: "r-1" })]]);
    }
  }
  expect(written.slice(1)).toEqual([{ ...failure({ requestId: "r-3" }), count: 2 }]);
});

test("writes counted events at the end of each window, and nothing for a window without events", async () => {
  const { store, written, until } = createSink();
  await using recorder = openAuditRecorder({ store, log, windowMs: 20 });
  recorder.record(failure());
  recorder.record(failure());
  await until(2);
  recorder.record(failure());
  recorder.record(failure());
  await until(3);
  expect(written.map(({ count = 1 }) => count)).toEqual([1, 1, 2]);
});

test("counts events of another user, client, subject or detail separately", async () => {
  const { store, written } = createSink();
  {
    await using recorder = openAuditRecorder({ store, log });
    const events = [
      failure(),
      failure({ by: "ada" }),
      failure({ address: "10.0.0.2" }),
      failure({}, "locked out"),
      { ...failure(), subject: "an RPC" },
      { ...failure(), kind: "permission_denied" as const },
    ];
    for (const event of [...events, ...events]) {
      recorder.record(event);
    }
  }
  expect(written).toHaveLength(12);
  expect(written.every(({ count = 1 }) => count === 1)).toBe(true);
});

test("counts one IPv6 network as one client", async () => {
  const { store, written } = createSink();
  {
    await using recorder = openAuditRecorder({ store, log });
    recorder.record(failure({ address: "2001:db8::1" }));
    recorder.record(failure({ address: "2001:db8::2" }));
    recorder.record(failure({ address: "2001:db8::3" }));
  }
  expect(written.map(({ count = 1 }) => count)).toEqual([1, 2]);
});

test("a flood from many addresses writes a bounded number of entries, and counts each event once", async () => {
  const { store, written } = createSink();
  {
    await using recorder = openAuditRecorder({ store, log, maxGroups: 4 });
    for (let round = 0; round < 2; round += 1) {
      for (let at = 0; at < 1000; at += 1) {
        recorder.record(failure({ address: `10.0.${at >> 8}.${at & 255}`, by: at % 2 === 0 ? "ada" : undefined }));
        recorder.record(failure({ address: "10.9.9.9", by: `spiffe://example.org/${at}` }));
      }
    }
  }
  expect(written.length).toBeLessThan(40);
  expect(written.reduce((sum, { count = 1 }) => sum + count, 0)).toBe(4000);
  expect(written).toContainEqual({
    kind: "sign_in_failed",
    origin: { by: "ada", address: undefined, protocol: undefined, requestId: undefined },
    detail: "many clients: they are counted together",
    count: expect.any(Number),
  });
});

test("logs events that could not be written, and writes later ones", async () => {
  const { store, written, until } = createSink();
  const lines: string[] = [];
  let fails = true;
  const unreliable = {
    append: async (records: readonly AuditRecord[]) => {
      if (fails) {
        fails = false;
        throw new Error("the disk is full");
      }
      await store.append(records);
    },
  };
  await using recorder = openAuditRecorder({
    store: unreliable,
    log: pino({}, { write: (line: string) => void lines.push(line) }),
  });
  recorder.record(failure({ by: "ada" }));
  while (lines.length === 0) {
    await new Promise(setImmediate);
  }
  recorder.record(failure({ by: "bob" }));
  await until(1);
  expect(written).toEqual([failure({ by: "bob" })]);
  expect(lines).toHaveLength(1);
  expect(JSON.parse(lines[0] ?? "")).toMatchObject({ records: [failure({ by: "ada" })] });
});
