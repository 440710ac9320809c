import { fromBinary, toBinary } from "@bufbuild/protobuf";
import { timestampMs } from "@bufbuild/protobuf/wkt";
import type { Logger } from "pino";
import { type Event, EventSchema } from "../../gen/flowgate/v1/events_pb.ts";
import type {
  JournalCursor,
  JournalEntry,
  JournalQuery,
  JournalReading,
  JournalStore,
} from "../store/journal-store.ts";
import { type EventCase, type EventFilter, recordedCases } from "./events.ts";
import type { EventHub } from "./hub.ts";
import { parsePosition } from "./position.ts";
import type { DropReason } from "./stream.ts";

type JournalOptions = {
  readonly store: JournalStore;
  readonly hub: EventHub;
  readonly log: Logger;
  /** The oldest entries beyond this size are removed. */
  readonly maxBytes: number;
  readonly maxAgeMs: number;
};

type JournalEvents = {
  readonly events: readonly Event[];
  /** The position after the page; undefined on the last page. */
  readonly next: JournalCursor | undefined;
};

/** Records events, and finds recorded ones. Disposing writes pending events, and disposes of the store. */
export interface Journal extends AsyncDisposable {
  /** The kinds that are recorded. */
  readonly cases: ReadonlySet<EventCase>;
  /** `after` is where the previous page has ended; `order` defaults to newest first. */
  list(
    filter: EventFilter,
    page: Pick<JournalQuery, "limit" | "after" | "afterSeq" | "fromMs" | "untilMs"> &
      Partial<Pick<JournalQuery, "order">>,
  ): Promise<JournalEvents>;
  /** The recorded events after a position, in the order in which they were recorded. */
  read(
    filter: Pick<EventFilter, "cases" | "level">,
    from: Pick<JournalReading, "after" | "limit">,
  ): Promise<JournalReadEvents>;
  claimCursor: JournalStore["claimCursor"];
  moveCursor: JournalStore["moveCursor"];
  dropped(): number;
}

export type JournaledEvent = {
  readonly event: Event;
  /** From which a reading continues after it. */
  readonly position: string;
};

type JournalReadEvents = { readonly events: readonly JournaledEvent[]; readonly position: string };

/** The time for which events are collected into one write. */
const flushMs = 200;

/** The maximum size of pending events while the store is slow or can't be written. Further events are dropped. */
const maxPendingBytes = 4 * 1024 * 1024;

const pruneMs = 30_000;

/** After this share of its size was written, the journal is pruned before the time. */
const pruneShare = 1 / 8;

const eventsPerRead = 200;

export type RecordedEvent = { readonly seq: number; readonly event: Event };

/** The recorded events between two positions, in their order. */
export async function* recordedBetween(
  journal: Pick<Journal, "list">,
  filter: EventFilter,
  { afterSeq, untilSeq }: { readonly afterSeq: number; readonly untilSeq: number },
): AsyncGenerator<RecordedEvent, void> {
  let next: JournalCursor | undefined;
  do {
    const page: JournalEvents = await journal.list(filter, {
      limit: eventsPerRead,
      order: "oldest",
      afterSeq,
      after: next,
    });
    for (const event of page.events) {
      const seq = parsePosition(event.id, "id");
      if (seq > untilSeq) {
        return;
      }
      yield { seq, event };
    }
    ({ next } = page);
  } while (next !== undefined);
}

export function openJournal(options: JournalOptions): Journal {
  return new Recorder(options);
}

/** Stands for the journal if nothing is recorded. */
export function createNoJournal(): Journal {
  return {
    cases: new Set(),
    list: async () => ({ events: [], next: undefined }),
    read: async (_, { after }) => ({ events: [], position: after }),
    claimCursor: async () => undefined,
    moveCursor: async () => false,
    dropped: () => 0,
    async [Symbol.asyncDispose]() {},
  };
}

class Recorder implements Journal {
  readonly cases = recordedCases;
  readonly #options: JournalOptions;
  readonly #subscription: Disposable;
  readonly #pruning: NodeJS.Timeout;
  #pending: JournalEntry[] = [];
  #pendingBytes = 0;
  #flush: NodeJS.Timeout | undefined;
  #writing: Promise<void> = Promise.resolve();
  #writtenBytes = 0;
  #dropped = 0;
  /** The dropped events not yet reported by an event, by kind. */
  #untold = new Map<string, number>();
  #hasFailed = false;

  constructor(options: JournalOptions) {
    this.#options = options;
    this.#subscription = options.hub.onEvent((event) => this.#record(event));
    this.#pruning = setInterval(() => void this.#prune(), pruneMs).unref();
  }

  dropped(): number {
    return this.#dropped;
  }

  async list(
    { cases, tab, node, level }: EventFilter,
    { order = "newest", ...page }: Parameters<Journal["list"]>[1],
  ): Promise<JournalEvents> {
    // Clients find the events that they have seen in a stream.
    await this.#write();
    const { entries, next } = await this.#options.store.list({
      ...page,
      order,
      kinds: [...cases.intersection(recordedCases), "dropped"],
      maxLevel: level,
      flowId: tab,
      node,
    });
    return { events: entries.map(({ data }) => fromBinary(EventSchema, data)), next };
  }

  async read(
    { cases, level }: Pick<EventFilter, "cases" | "level">,
    from: Pick<JournalReading, "after" | "limit">,
  ): Promise<JournalReadEvents> {
    await this.#write();
    const { entries, position } = await this.#options.store.read({ ...from, kinds: [...cases], maxLevel: level });
    return {
      events: entries.map((entry) => ({ event: fromBinary(EventSchema, entry.data), position: entry.position })),
      position,
    };
  }

  claimCursor(claim: Parameters<JournalStore["claimCursor"]>[0]): Promise<string | undefined> {
    return this.#options.store.claimCursor(claim);
  }

  moveCursor(move: Parameters<JournalStore["moveCursor"]>[0]): Promise<boolean> {
    return this.#options.store.moveCursor(move);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#subscription[Symbol.dispose]();
    clearInterval(this.#pruning);
    await this.#write();
    await this.#options.store[Symbol.asyncDispose]();
  }

  #record(event: Event): void {
    if (!isRecorded(event)) {
      return;
    }
    const data = toBinary(EventSchema, event);
    const { kind } = event;
    if (this.#pendingBytes + data.length > maxPendingBytes) {
      this.#drop(kind.case);
      return;
    }
    this.#pending.push({
      seq: parsePosition(event.id, "id"),
      timeMs: event.time === undefined ? 0 : timestampMs(event.time),
      runtime: event.runtime,
      kind: kind.case,
      level: "level" in kind.value ? kind.value.level : undefined,
      flowId: event.flowId,
      nodeId: event.nodeId,
      nodeType: event.nodeType,
      nodeName: event.nodeName,
      data,
    });
    this.#pendingBytes += data.length;
    this.#flush ??= setTimeout(() => void this.#write(), flushMs).unref();
  }

  #drop(kind: string): void {
    this.#dropped += 1;
    this.#untold.set(kind, (this.#untold.get(kind) ?? 0) + 1);
  }

  /** Writes pending events after the current write. Never rejects. */
  #write(): Promise<void> {
    clearTimeout(this.#flush);
    this.#flush = undefined;
    this.#writing = this.#writing.then(() => this.#writePending());
    return this.#writing;
  }

  async #writePending(): Promise<void> {
    const { store, log, maxBytes } = this.#options;
    const entries = this.#pending;
    if (entries.length === 0) {
      return;
    }
    this.#pending = [];
    const bytes = entries.reduce((sum, { data }) => sum + data.length, 0);
    try {
      await store.append(entries);
      this.#hasFailed = false;
      this.#writtenBytes += bytes;
    } catch (err) {
      entries.forEach(({ kind }) => this.#drop(kind));
      if (!this.#hasFailed) {
        this.#hasFailed = true;
        log.warn({ err }, "events can't be recorded in the journal: they are dropped until it can be written");
      }
    } finally {
      this.#pendingBytes -= bytes;
    }
    if (!this.#hasFailed) {
      this.#tellDropped();
    }
    if (this.#writtenBytes > pruneShare * maxBytes) {
      await this.#prune();
    }
  }

  /** Publishes an event about the dropped events, once the journal can be written again. */
  #tellDropped(): void {
    const kinds = Object.fromEntries(this.#untold);
    const count = this.#untold.values().reduce((sum, each) => sum + each, 0);
    if (count > 0) {
      this.#untold = new Map();
      this.#options.hub.publish({ kind: { case: "dropped", value: { reason: notRecorded, count, kinds } } });
    }
  }

  async #prune(): Promise<void> {
    const { store, maxBytes, maxAgeMs, log } = this.#options;
    this.#writtenBytes = 0;
    try {
      await store.prune({ maxBytes, fromMs: Date.now() - maxAgeMs });
    } catch (err) {
      log.debug({ err }, "the journal was not pruned");
    }
  }
}

const notRecorded: DropReason = "not_recorded";

type Recorded = Event & { readonly kind: Exclude<Event["kind"], { case: undefined }> };

function isRecorded(event: Event): event is Recorded {
  const { kind } = event;
  return (
    kind.case !== undefined &&
    (recordedCases.has(kind.case) || (kind.case === "dropped" && kind.value.reason === notRecorded))
  );
}
