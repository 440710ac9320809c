import { pino } from "pino";
import { expect, test } from "vitest";
import { type Event, LogLevel } from "../../gen/flowgate/v1/events_pb.ts";
import { EventHub } from "../../src/events/hub.ts";
import { type Journal, openJournal } from "../../src/events/journal.ts";
import type { JournalEntry, JournalQuery, JournalStore } from "../../src/store/journal-store.ts";

/** A store in memory that fails while `isFull`. */
class FakeStore implements JournalStore {
  isFull = false;
  entries: JournalEntry[] = [];
  queries: JournalQuery[] = [];
  prunes = 0;
  isDisposed = false;

  async append(entries: readonly JournalEntry[]): Promise<void> {
    if (this.isFull) {
      throw new Error("the disk is full");
    }
    this.entries.push(...entries);
  }

  async list(query: JournalQuery): ReturnType<JournalStore["list"]> {
    this.queries.push(query);
    return { entries: this.entries.filter(({ kind }) => query.kinds.includes(kind)), next: undefined };
  }

  async lastSeq(): Promise<number> {
    return this.entries.at(-1)?.seq ?? 0;
  }

  async read(): ReturnType<JournalStore["read"]> {
    return { entries: this.entries.map((entry) => ({ ...entry, position: String(entry.seq) })), position: "end" };
  }

  async claimCursor(): Promise<string | undefined> {
    return "start";
  }

  async moveCursor(): Promise<boolean> {
    return true;
  }

  async prune(): Promise<number> {
    this.prunes += 1;
    return 0;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.isDisposed = true;
  }
}

function start({ maxBytes = 1_000_000_000 } = {}) {
  const store = new FakeStore();
  const hub = new EventHub({ runtime: "", lastSeq: 0 });
  const lines: { msg: string }[] = [];
  const log = pino({}, { write: (line: string) => void lines.push(JSON.parse(line) as { msg: string }) });
  const journal = openJournal({ store, hub, log, maxBytes, maxAgeMs: 1_000_000 });
  const publish = (message: string): Event =>
    hub.publish({ nodeId: "f", kind: { case: "nodeError", value: { level: LogLevel.ERROR, message } } });
  return { store, hub, journal, lines, publish };
}

async function listAll(journal: Journal): Promise<readonly Event[]> {
  return (await journal.list({ cases: journal.cases }, { limit: 100 })).events;
}

test("what was published is listed at once, with its id, if it is of a recorded kind", async () => {
  const { hub, journal, publish } = start();
  await using _ = journal;
  const [one, two] = [publish("one"), publish("two")];
  hub.publish({ nodeId: "f", kind: { case: "nodeStatus", value: { text: "running" } } });
  hub.publish({ kind: { case: "dropped", value: { reason: "flood", count: 1 } } });
  expect(await listAll(journal)).toEqual([one, two]);
});

test("disposing writes what is pending, and disposes of the store", async () => {
  const { journal, store, publish } = start();
  publish("one");
  await journal[Symbol.asyncDispose]();
  expect(store.entries).toHaveLength(1);
  expect(store.isDisposed).toBe(true);
});

test("events that can't be written are counted, and an event says so when they can be written again", async () => {
  const { hub, journal, store, lines, publish } = start();
  await using _ = journal;
  store.isFull = true;
  publish("one");
  await listAll(journal);
  publish("two");
  publish("three");
  await listAll(journal);
  expect(journal.dropped()).toBe(3);
  expect(lines.map(({ msg }) => msg)).toEqual([
    "events can't be recorded in the journal: they are dropped until it can be written",
  ]);
  store.isFull = false;
  const stream = hub.watch({ cases: journal.cases });
  const four = publish("four");
  await listAll(journal);
  expect((await stream.next()).value).toBe(four);
  const { value: dropped } = await stream.next();
  expect(dropped).toMatchObject({
    kind: { case: "dropped", value: { reason: "not_recorded", count: 3, kinds: { nodeError: 3 } } },
  });
  expect(await listAll(journal)).toEqual([four, dropped]);
});

test("what waits for a slow store is bounded", async () => {
  const { journal, store, publish } = start();
  await using _ = journal;
  const message = "x".repeat(100_000);
  for (let at = 0; at < 60; at++) {
    publish(message);
  }
  await listAll(journal);
  const bytes = store.entries.reduce((sum, { data }) => sum + data.length, 0);
  expect(bytes).toBeLessThanOrEqual(4 * 1024 * 1024);
  expect(journal.dropped()).toBe(60 - store.entries.filter(({ kind }) => kind === "nodeError").length);
  expect(journal.dropped()).toBeGreaterThan(0);
});

test("the journal is pruned before the time when much was written", async () => {
  const { journal, store, publish } = start({ maxBytes: 80_000 });
  await using _ = journal;
  publish("x");
  await listAll(journal);
  expect(store.prunes).toBe(0);
  publish("x".repeat(20_000));
  await listAll(journal);
  expect(store.prunes).toBe(1);
});

test("the filter is that of the store", async () => {
  const { journal, store } = start();
  await using _ = journal;
  const filter = { cases: new Set(["log", "debug"] as const), tab: "t", node: "n", level: LogLevel.WARN };
  await journal.list(filter, { limit: 7, fromMs: 1, untilMs: 2, afterSeq: 3, order: "oldest" });
  expect(store.queries).toEqual([
    {
      limit: 7,
      fromMs: 1,
      untilMs: 2,
      afterSeq: 3,
      order: "oldest",
      kinds: ["log", "dropped"],
      maxLevel: LogLevel.WARN,
      flowId: "t",
      node: "n",
    },
  ]);
});
