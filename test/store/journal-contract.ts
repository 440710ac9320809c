import { expect, test } from "vitest";
import type { JournalEntry, JournalQuery, JournalStore } from "../../src/store/journal-store.ts";
import type { Store } from "../../src/store/store.ts";
import { eventually } from "../e2e/service.ts";
import type { StoreLocation } from "./contract.ts";

/** The contract of `JournalStore`, for an adapter. */
export function journalStoreContract(createLocation: () => Promise<StoreLocation>): void {
  test("a new journal is empty", async () => {
    await using location = await createLocation();
    await using store = await location.open();
    await using journal = openJournal(store);
    expect(await list(journal)).toEqual({ entries: [], next: undefined });
    expect(await journal.lastSeq("")).toBe(0);
    expect(await journal.prune({ maxBytes: 1, fromMs: 10_000 })).toBe(0);
  });

  test("entries are listed in both orders, with all that was recorded", async () => {
    await using location = await createLocation();
    await using store = await location.open();
    await using journal = openJournal(store);
    const entries = [entry(3), entry(1, { level: undefined }), entry(2, { nodeName: "Zoë 🔑" })];
    await journal.append(entries);
    await journal.append([entry(4)]);
    const expected = [entry(1, { level: undefined }), entry(2, { nodeName: "Zoë 🔑" }), entry(3), entry(4)];
    expect((await list(journal, { order: "oldest" })).entries).toEqual(expected);
    expect((await list(journal)).entries).toEqual(expected.toReversed());
    expect(await journal.lastSeq("")).toBe(4);
  });

  test("a cursor begins at the newest entry, and what is recorded after it is read once, in the order of recording", async () => {
    await using location = await createLocation();
    await using store = await location.open();
    await using journal = openJournal(store);
    const start = (await journal.claimCursor({ name: "start", holder: "a", forMs: 60_000 })) ?? "";
    await journal.append([entry(1)]);
    await readEventually(journal, start, [1]);
    const after = (await journal.claimCursor({ name: "c", holder: "a", forMs: 60_000 })) ?? "";
    const kinds = ["log", "nodeError", "deployment", "token"];
    expect((await journal.read({ after, limit: 10, kinds })).entries).toEqual([]);
    await journal.append([entry(3)]);
    await journal.append([entry(4, { kind: "token", level: undefined }), entry(5, { kind: "log", level: 3 })]);
    await readEventually(journal, after, [3, 4, 5]);
    const seqs: number[] = [];
    for (let position = after; ;) {
      const read = await journal.read({ after: position, limit: 2, kinds });
      seqs.push(...read.entries.map(({ seq }) => seq));
      if (read.entries.length === 0) {
        break;
      }
      ({ position } = read);
    }
    expect(seqs).toEqual([3, 4, 5]);
    const filtered = await journal.read({ after, limit: 10, kinds: ["log", "token"], maxLevel: 2 });
    expect(filtered.entries.map(({ seq }) => seq)).toEqual([4]);
    // What does not match is not read again.
    expect((await journal.read({ after: filtered.position, limit: 10, kinds })).entries).toEqual([]);
    const first = (await journal.read({ after, limit: 10, kinds })).entries[0]?.position ?? "";
    expect((await journal.read({ after: first, limit: 10, kinds })).entries.map(({ seq }) => seq)).toEqual([4, 5]);
  });

  test("a cursor has one holder at a time, and keeps its position", async () => {
    await using location = await createLocation();
    await using store = await location.open();
    await using journal = openJournal(store);
    await journal.append([entry(1)]);
    const start = (await journal.claimCursor({ name: "c", holder: "a", forMs: 60_000 })) ?? "";
    await journal.append([entry(2)]);
    const { position } = await journal.read({ after: start, limit: 10, kinds: ["log", "nodeError"] });
    expect(await journal.claimCursor({ name: "c", holder: "b", forMs: 60_000 })).toBeUndefined();
    expect(await journal.moveCursor({ name: "c", holder: "b", position })).toBe(false);
    expect(await journal.moveCursor({ name: "c", holder: "a", position })).toBe(true);
    expect(await journal.claimCursor({ name: "c", holder: "a", forMs: 0 })).toBe(position);
    expect(await journal.claimCursor({ name: "c", holder: "b", forMs: 60_000 })).toBe(position);
    expect(await journal.claimCursor({ name: "c", holder: "a", forMs: 60_000 })).toBeUndefined();
    expect(await journal.claimCursor({ name: "another", holder: "a", forMs: 60_000 })).toBeDefined();
  });

  test("sequence numbers are as large as those of events", async () => {
    await using location = await createLocation();
    await using store = await location.open();
    await using journal = openJournal(store);
    const seq = Date.UTC(2035, 0) * 4_096 + 1;
    await journal.append([entry(seq)]);
    expect(await journal.lastSeq("")).toBe(seq);
    expect((await list(journal)).entries).toEqual([entry(seq)]);
  });

  test.each(["newest", "oldest"] as const)("pages have every entry once, the %s first", async (order) => {
    await using location = await createLocation();
    await using store = await location.open();
    await using journal = openJournal(store);
    // Runtimes can use the same numbers.
    const all = [entry(1), entry(2), entry(2, { runtime: "b" }), entry(2, { runtime: "c" }), entry(3)];
    await journal.append(all);
    const seen: JournalEntry[] = [];
    let after: JournalQuery["after"];
    do {
      const page = await list(journal, { limit: 2, order, after });
      expect(page.entries.length).toBeLessThanOrEqual(2);
      seen.push(...page.entries);
      after = page.next;
    } while (after !== undefined);
    expect(seen).toEqual(order === "oldest" ? all : all.toReversed());
  });

  test.each<[string, Partial<JournalQuery>, number[]]>([
    ["a kind", { kinds: ["log"] }, [1, 5]],
    ["several kinds", { kinds: ["log", "token"] }, [1, 4, 5]],
    ["no kind", { kinds: [] }, []],
    ["a level, and entries that have none", { maxLevel: 3 }, [1, 2, 4]],
    ["a tab", { flowId: "t2" }, [3]],
    ["the id of a node", { node: "n" }, [2]],
    ["the type of a node", { node: "function" }, [2, 3]],
    ["the name of a node", { node: "Divide" }, [3]],
    ["a sequence number", { afterSeq: 3 }, [4, 5]],
    ["the time of the first", { fromMs: 3 }, [3, 4, 5]],
    ["the time after the last", { untilMs: 3 }, [1, 2]],
  ])("entries are filtered by %s", async (_, filter, expected) => {
    await using location = await createLocation();
    await using store = await location.open();
    await using journal = openJournal(store);
    const node = { kind: "nodeError", flowId: "t1", nodeId: "n", nodeType: "function", nodeName: "Add" };
    await journal.append([
      entry(1, { level: 3 }),
      entry(2, { ...node, level: 2 }),
      entry(3, { ...node, flowId: "t2", nodeId: "m", nodeName: "Divide", level: 4 }),
      entry(4, { kind: "token", level: undefined }),
      entry(5, { level: 6, runtime: "b" }),
    ]);
    const { entries } = await list(journal, { order: "oldest", ...filter });
    expect(entries.map(({ seq }) => seq)).toEqual(expected);
  });

  test("thousands of entries are written at once", async () => {
    await using location = await createLocation();
    await using store = await location.open();
    await using journal = openJournal(store);
    await journal.append(Array.from({ length: 2_500 }, (_, at) => entry(at + 1)));
    expect(await journal.lastSeq("")).toBe(2_500);
    expect((await list(journal, { limit: 3_000 })).entries).toHaveLength(2_500);
  });

  test("an entry that is there already is not written again", async () => {
    await using location = await createLocation();
    await using store = await location.open();
    await using journal = openJournal(store);
    await journal.append([entry(1), entry(2)]);
    await journal.append([entry(2), entry(3)]);
    expect((await list(journal)).entries.map(({ seq }) => seq)).toEqual([3, 2, 1]);
  });

  test("entries are kept when the store is opened again", async () => {
    await using location = await createLocation();
    {
      await using store = await location.open();
      await using journal = openJournal(store);
      await journal.append([entry(1)]);
    }
    await using store = await location.open();
    await using journal = openJournal(store);
    expect((await list(journal)).entries).toEqual([entry(1)]);
    expect(await journal.lastSeq("")).toBe(1);
    expect(await journal.lastSeq("b")).toBe(0);
  });

  test("the oldest entries are removed beyond the age and the size", async () => {
    await using location = await createLocation();
    await using store = await location.open();
    await using journal = openJournal(store);
    const data = new Uint8Array(1_000).map((_, at) => (at * 7_919) % 251);
    await journal.append(Array.from({ length: 4_000 }, (_, at) => entry(at + 1, { data })));
    expect(await journal.prune({ maxBytes: 100_000_000, fromMs: 0 })).toBe(0);
    expect(await journal.prune({ maxBytes: 100_000_000, fromMs: 1_501 })).toBe(1_500);
    expect((await list(journal, { order: "oldest", limit: 1 })).entries).toMatchObject([{ seq: 1_501 }]);
    const removed = await journal.prune({ maxBytes: 1_500_000, fromMs: 0 });
    const { entries } = await list(journal, { limit: 3_000 });
    expect(entries.map(({ seq }) => seq)).toEqual(Array.from({ length: entries.length }, (_, at) => 4_000 - at));
    expect(entries.length + removed).toBe(2_500);
    expect(entries.length).toBeLessThanOrEqual(1_500);
    // A batch more than necessary may be removed.
    expect(entries.length).toBeGreaterThan(200);
    expect(await journal.prune({ maxBytes: 1_500_000, fromMs: 0 })).toBe(0);
  });
}

function openJournal(store: Store): JournalStore {
  return store.openJournal({
    onReplaced(reason) {
      throw new Error(reason);
    },
  });
}

/** Waits until these entries can be read: a store with several writers waits for transactions that are older than an entry. */
async function readEventually(journal: JournalStore, after: string, seqs: readonly number[]): Promise<void> {
  await eventually(async () => {
    const { entries } = await journal.read({ after, limit: 10, kinds: ["log", "nodeError", "token"] });
    expect(entries.map(({ seq }) => seq)).toEqual(seqs);
  });
}

function list(journal: JournalStore, query: Partial<JournalQuery> = {}): ReturnType<JournalStore["list"]> {
  return journal.list({ limit: 100, order: "newest", kinds: ["log", "nodeError", "token"], ...query });
}

function entry(seq: number, init: Partial<JournalEntry> = {}): JournalEntry {
  return {
    seq,
    timeMs: seq,
    runtime: "",
    kind: "log",
    level: 4,
    flowId: "",
    nodeId: "",
    nodeType: "",
    nodeName: "",
    data: Uint8Array.of(seq % 256, 0, 255),
    ...init,
  };
}
