import { hash } from "node:crypto";
import { expect, test } from "vitest";
import { hashEntry } from "../../src/store/sql/audit-log.ts";
import type { AuditRecord } from "../../src/store/audit-store.ts";
import type { Store } from "../../src/store/store.ts";
import { draft } from "./builders.ts";
import type { StoreLocation } from "./contract.ts";

const origin = { by: "ada", address: "10.0.0.1", protocol: "rest", requestId: "r-1" };
const nobody = { by: undefined, address: undefined, protocol: undefined, requestId: undefined };

function record(init: Partial<AuditRecord> = {}): AuditRecord {
  return { kind: "sign_in", origin, subject: "a subject", detail: "a detail", ...init };
}

async function all(store: Store) {
  return (await store.audit.list({ limit: 1000, order: "oldest" })).entries;
}

/** The contract of `AuditStore`. Each adapter's tests also change the log behind its back. */
export function auditStoreContract(createLocation: () => Promise<StoreLocation>): void {
  test("appends entries with all fields, in a chain that starts at 1", async () => {
    await using location = await createLocation();
    await using store = await location.open();
    const records = [record(), { kind: "users_reloaded", origin: nobody } as const, record({ count: 7 })];
    await store.audit.append(records.slice(0, 1));
    await store.audit.append(records.slice(1));
    const entries = await all(store);
    expect(entries).toEqual([
      { ...records[0], seq: 1, count: 1, timeMs: expect.any(Number), hash: expect.any(String) },
      {
        ...records[1],
        subject: undefined,
        detail: undefined,
        seq: 2,
        count: 1,
        timeMs: expect.any(Number),
        hash: expect.any(String),
      },
      { ...records[2], seq: 3, timeMs: expect.any(Number), hash: expect.any(String) },
    ]);
    const [first, second] = entries;
    const fields = ["", 1, first?.timeMs, "sign_in", "ada", "10.0.0.1", "rest", "r-1", "a subject", "a detail", 1];
    expect(first?.hash).toBe(hash("sha256", JSON.stringify(fields)));
    expect(second?.hash).toBe(second && hashEntry(first?.hash ?? "", second));
    expect(Math.abs(Date.now() - (first?.timeMs ?? 0))).toBeLessThan(60_000);
  });

  test("an empty log is intact, and so is one after a restart", async () => {
    await using location = await createLocation();
    {
      await using store = await location.open();
      expect(await store.audit.verify()).toEqual({
        entries: 0,
        revisions: 0,
        head: { seq: 0, hash: "" },
        problem: undefined,
      });
      await store.audit.append([record(), record()]);
    }
    await using store = await location.open();
    await store.audit.append([record()]);
    const head = (await all(store)).at(-1);
    expect(await store.audit.verify()).toEqual({
      entries: 3,
      revisions: 0,
      head: { seq: 3, hash: head?.hash },
      problem: undefined,
    });
  });

  test("a commit writes an entry, and a rejected one does not", async () => {
    await using location = await createLocation();
    await using store = await location.open();
    const { rev } = await store.flows.commit(draft(store.flows.active().rev, { ...origin, deploymentType: "nodes" }));
    await store.flows.commit(draft("unknown", origin)).catch(() => {});
    await store.flows.commit(draft(rev, { ...origin, deploymentType: "bad" as "full" })).catch(() => {});
    expect(await all(store)).toMatchObject([{ kind: "deployment", origin, subject: rev, detail: "nodes" }]);
  });

  test("entries of several stores form one chain", async () => {
    await using location = await createLocation();
    await using one = await location.open();
    await using two = await location.open();
    const appended = Array.from({ length: 20 }, (_, index) => (index % 2 === 0 ? one : two).audit.append([record()]));
    await Promise.all(appended);
    expect(await two.audit.verify()).toMatchObject({ entries: 20, head: { seq: 20 }, problem: undefined });
  });

  test("lists entries in both orders, in pages that are not shifted by new entries", async () => {
    await using location = await createLocation();
    await using store = await location.open();
    await store.audit.append(Array.from({ length: 5 }, () => record()));
    const newest = await store.audit.list({ limit: 2, order: "newest" });
    await store.audit.append([record()]);
    const next = await store.audit.list({ limit: 3, order: "newest", after: newest.next });
    expect([newest, next].map(({ entries }) => entries.map(({ seq }) => seq))).toEqual([
      [5, 4],
      [3, 2, 1],
    ]);
    expect(next.next).toBeUndefined();
    const oldest = await store.audit.list({ limit: 4, order: "oldest" });
    const last = await store.audit.list({ limit: 4, order: "oldest", after: oldest.next });
    expect([...oldest.entries, ...last.entries].map(({ seq }) => seq)).toEqual([1, 2, 3, 4, 5, 6]);
    expect(last.next).toBeUndefined();
  });

  test("filters entries by kind, user and time", async () => {
    await using location = await createLocation();
    await using store = await location.open();
    await store.audit.append([
      record(),
      record({ kind: "sign_in_failed", origin: nobody }),
      record({ kind: "deployment", origin: { ...origin, by: "bob" } }),
    ]);
    const find = async (filter: object) =>
      (await store.audit.list({ limit: 10, order: "oldest", ...filter })).entries.map(({ seq }) => seq);
    const [first] = await all(store);
    const timeMs = first?.timeMs ?? 0;
    expect(await find({ kinds: ["sign_in", "deployment"] })).toEqual([1, 3]);
    expect(await find({ kinds: ["token_created"] })).toEqual([]);
    expect(await find({ user: "bob" })).toEqual([3]);
    expect(await find({ user: "bob", kinds: ["sign_in"] })).toEqual([]);
    expect(await find({ fromMs: timeMs })).toEqual([1, 2, 3]);
    expect(await find({ untilMs: timeMs })).toEqual([]);
    expect(await find({ fromMs: timeMs + 60_000 })).toEqual([]);
  });

  test("compares the log with an entry that was recorded elsewhere", async () => {
    await using location = await createLocation();
    await using store = await location.open();
    await store.audit.append([record(), record(), record()]);
    const [, second] = await all(store);
    const problem = async (seq: number, hash = second?.hash ?? "") => (await store.audit.verify({ seq, hash })).problem;
    expect(await problem(2)).toBeUndefined();
    expect(await problem(1)).toBe("entry 1 has another hash than expected");
    expect(await problem(4)).toBe("entry 4 is missing, the last one is 3");
  });

  test("removes old entries, and the rest of the chain stays intact", async () => {
    await using location = await createLocation();
    await using store = await location.open();
    await store.audit.append([record(), record(), record({ subject: "newest" })]);
    const [first, second] = await all(store);
    await store.audit.prune(60_000);
    expect(await all(store)).toHaveLength(3);
    await store.audit.prune(-60_000);
    const pruned = { kind: "audit_pruned", origin: nobody, subject: `2:${second?.hash}`, count: 2 };
    expect(await all(store)).toMatchObject([
      { seq: 3, subject: "newest" },
      { ...pruned, seq: 4 },
    ]);
    expect(await store.audit.verify(second)).toMatchObject({ entries: 2, head: { seq: 4 }, problem: undefined });
    expect((await store.audit.verify(first)).problem).toBe(
      "entry 1 can't be compared, since entries up to 2 were removed by the retention",
    );
    expect((await store.audit.verify({ seq: 2, hash: first?.hash ?? "" })).problem).toBe(
      "entry 2 has another hash than expected",
    );
    await store.audit.prune(-60_000);
    await store.audit.append([record()]);
    expect(await store.audit.verify()).toMatchObject({ entries: 3, head: { seq: 6 }, problem: undefined });
  });

  test("keeps text that is not well-formed verifiable", async () => {
    await using location = await createLocation();
    await using store = await location.open();
    await store.audit.append([record({ detail: "lone \ud800 surrogate, \u0000 and 🔑" })]);
    expect((await all(store))[0]?.detail).toBe("lone \ufffd surrogate, \ufffd and 🔑");
    expect(await store.audit.verify()).toMatchObject({ entries: 1, problem: undefined });
  });
}
