import type { Event } from "../../gen/flowgate/v1/events_pb.ts";
import { type EventFilter, type EventInit, lossyCases, matches } from "./events.ts";

/** Why events are missing in a stream. */
export type DropReason = "slow_reader" | "flood" | "expired" | "not_recorded" | "not_encoded" | "replica_unreachable";

/** An event in memory. */
export type Entry = { readonly seq: number; readonly event: Event; readonly bytes: number };

/** What a stream reads from. */
export interface StreamSource {
  readonly lastSeq: number;
  /** The index of the first entry after a position. */
  find(seq: number): number;
  /** The entry at an index, which counts from the first event of the process. */
  entryAt(index: number): Entry | undefined;
  /** The events of lossy kinds that one stream gets in a second. */
  ratePerSecond(): number;
  nowMs(): number;
  /** Creates an event of a single stream, which no other stream has. It has the position `seq`. */
  control(seq: number, kind: EventInit["kind"]): Event;
}

/** Yields what a stream begins with. It calls `seek` with the position after which the stream then continues. */
export type Lead = (seek: (seq: number) => void) => AsyncGenerator<Event, void>;

/** What a stream may get at once. */
const burstSeconds = 2;

type StreamOptions = {
  readonly source: StreamSource;
  readonly filter: EventFilter;
  readonly before: readonly Event[];
  readonly lead: Lead | undefined;
  /** The index of the first entry to read. */
  readonly index: number;
  readonly onEnd: () => void;
};

/** One stream. It is an iterator without a generator, which would take as much memory again. */
export class EventStream implements AsyncIterableIterator<Event> {
  readonly filter: EventFilter;
  readonly #source: StreamSource;
  readonly #onEnd: () => void;
  #before: Event[];
  #lead: AsyncIterator<Event, void> | undefined;
  /** The index of the next entry to read. */
  #index: number;
  /** The position after what was read. */
  #seq = 0;
  /** Why and how many events of which kind were missed since the last event that tells. */
  #missed: Map<DropReason, Map<string, number>> | undefined;
  #tokens: number;
  #tokensMs: number;
  #waiting: ((result: IteratorResult<Event> | Promise<IteratorResult<Event>>) => void) | undefined;
  #bookmark: Pick<Entry, "event" | "seq"> | undefined;
  #isEnded = false;
  #failure: Error | undefined;

  constructor({ source, filter, before, lead, index, onEnd }: StreamOptions) {
    this.#source = source;
    this.filter = filter;
    this.#before = [...before];
    this.#index = index;
    this.#lead = lead?.((seq) => {
      this.#index = source.find(seq);
    });
    this.#seq = source.lastSeq;
    this.#onEnd = onEnd;
    this.#tokens = source.ratePerSecond() * burstSeconds;
    this.#tokensMs = source.nowMs();
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  next(): Promise<IteratorResult<Event>> {
    if (this.#failure !== undefined) {
      return Promise.reject(this.#failure);
    }
    if (this.#lead !== undefined) {
      return this.#nextOfLead(this.#lead);
    }
    const event = this.#take();
    if (event !== undefined) {
      return Promise.resolve({ done: false, value: event });
    }
    if (this.#isEnded) {
      return Promise.resolve({ done: true, value: undefined });
    }
    return new Promise((resolve) => {
      this.#waiting = resolve;
    });
  }

  return(): Promise<IteratorResult<Event>> {
    this.#failure = undefined;
    void this.#lead?.return?.();
    this.#lead = undefined;
    this.#before = [];
    this.#missed = undefined;
    this.end();
    return Promise.resolve({ done: true, value: undefined });
  }

  /** With an error, events that were not read are dropped. */
  end(error?: Error): void {
    if (!this.#isEnded) {
      this.#isEnded = true;
      this.#failure = error;
      this.#onEnd();
      this.#waiting?.(error === undefined ? { done: true, value: undefined } : this.next());
      this.#waiting = undefined;
    }
  }

  /** An event was published. */
  notify(): void {
    if (this.#waiting === undefined) {
      return;
    }
    const event = this.#take();
    if (event !== undefined) {
      const resolve = this.#waiting;
      this.#waiting = undefined;
      resolve({ done: false, value: event });
    }
  }

  /** The entry at this index is removed from memory. */
  removed(index: number, event: Event): void {
    if (index === this.#index) {
      this.#index += 1;
      if (matches(this.filter, event)) {
        this.#miss("slow_reader", event);
      }
    }
  }

  /** Sends a bookmark with the position `seq` after the events so far, unless a later event is sent first. */
  bookmark(event: Event, seq: number): void {
    this.#bookmark = { event, seq };
    this.notify();
  }

  async #nextOfLead(lead: AsyncIterator<Event, void>): Promise<IteratorResult<Event>> {
    const result = await lead.next();
    if (result.done !== true && this.#lead !== undefined) {
      return result;
    }
    this.#lead = undefined;
    return this.next();
  }

  #take(): Event | undefined {
    const before = this.#before.shift();
    if (before !== undefined) {
      return before;
    }
    for (
      let entry = this.#source.entryAt(this.#index);
      entry !== undefined;
      entry = this.#source.entryAt(this.#index)
    ) {
      const { event, seq } = entry;
      if (matches(this.filter, event)) {
        if (this.#isOverBudget(event)) {
          this.#miss("flood", event);
        } else {
          // What was missed comes before the event after it.
          const dropped = this.#takeMissed();
          if (dropped !== undefined) {
            return dropped;
          }
          this.#tokens -= isLossy(event) ? 1 : 0;
          this.#seq = seq;
          this.#index += 1;
          return event;
        }
      }
      this.#seq = seq;
      this.#index += 1;
    }
    const bookmark = this.#bookmark;
    if (bookmark === undefined || bookmark.seq < this.#seq) {
      this.#bookmark = undefined;
      return undefined;
    }
    const dropped = this.#takeMissed();
    if (dropped !== undefined) {
      return dropped;
    }
    this.#bookmark = undefined;
    return bookmark.event;
  }

  #isOverBudget(event: Event): boolean {
    if (!isLossy(event)) {
      return false;
    }
    const rate = this.#source.ratePerSecond();
    const nowMs = this.#source.nowMs();
    this.#tokens = Math.min(rate * burstSeconds, this.#tokens + ((nowMs - this.#tokensMs) / 1_000) * rate);
    this.#tokensMs = nowMs;
    return this.#tokens < 1;
  }

  #miss(reason: DropReason, { kind }: Event): void {
    if (kind.case === undefined) {
      return;
    }
    this.#missed ??= new Map();
    const kinds = this.#missed.get(reason) ?? new Map<string, number>();
    kinds.set(kind.case, (kinds.get(kind.case) ?? 0) + 1);
    this.#missed.set(reason, kinds);
  }

  #takeMissed(): Event | undefined {
    const [first] = this.#missed ?? [];
    if (first === undefined) {
      return undefined;
    }
    const [reason, kinds] = first;
    this.#missed?.delete(reason);
    if (this.#missed?.size === 0) {
      this.#missed = undefined;
    }
    const count = kinds.values().reduce((sum, each) => sum + each, 0);
    return this.#source.control(this.#seq, {
      case: "dropped",
      value: { reason, count, kinds: Object.fromEntries(kinds) },
    });
  }
}

function isLossy({ kind }: Event): boolean {
  return kind.case !== undefined && lossyCases.has(kind.case);
}
