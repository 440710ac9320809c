import { PollableIterator } from "@flowgate/gateway";
import type { Event } from "../../gen/flowgate/v1/events_pb.ts";
import { type EventFilter, type EventInit, lossyCases, matches } from "./events.ts";

/** Why events are missing in a stream. */
export type DropReason = "slow_reader" | "flood" | "expired" | "not_recorded" | "not_encoded" | "replica_unreachable";

export type StreamEntry = { readonly seq: number; readonly event: Event; readonly bytes: number };

/** The source that a stream reads from. */
export interface StreamSource {
  readonly lastSeq: number;
  /** The index of the first entry after a position. */
  find(seq: number): number;
  /** The entry at an index, which counts from the first event of the process. */
  entryAt(index: number): StreamEntry | undefined;
  /** The events of lossy kinds that one stream gets in a second. */
  ratePerSecond(): number;
  nowMs(): number;
  /** Creates an event of a single stream, which no other stream has. It has the position `seq`. */
  control(seq: number, kind: EventInit["kind"]): Event;
}

/** Yields the first events of a stream. It calls `seek` with the position after which the stream then continues. */
export type Lead = (seek: (seq: number) => void) => AsyncGenerator<Event, void>;

/** The burst of a stream, in seconds of its rate. */
const burstSeconds = 2;

/** Events that a stream returns before it gives way to the event loop: a snapshot may have thousands. */
const maxPerTurn = 256;

type StreamOptions = {
  readonly source: StreamSource;
  readonly filter: EventFilter;
  readonly before: readonly Event[];
  readonly lead: Lead | undefined;
  /** The index of the first entry to read. */
  readonly index: number;
  readonly onEnd: () => void;
};

/** One stream. A generator would take as much memory again. */
export class EventStream extends PollableIterator<Event> {
  readonly filter: EventFilter;
  readonly #source: StreamSource;
  readonly #onEnd: () => void;
  #before: Event[] | undefined;
  #lead: AsyncIterator<Event, void> | undefined;
  #isLeadPending = false;
  #index: number;
  /** The position after the last event read. */
  #seq = 0;
  /** The position of the last event that was sent. */
  #sentSeq = 0;
  /** Why and how many events of which kind were missed since the last event that tells. */
  #missed: Map<DropReason, Map<string, number>> | undefined;
  #tokens: number;
  #tokensMs: number;
  /** The event of the next read, if it is known. */
  #next: Event | undefined;
  /** Set while an event is awaited. */
  #onReady: (() => void) | undefined;
  #bookmark: Pick<StreamEntry, "event" | "seq"> | undefined;
  /** Events that were returned since the stream waited. */
  #returned = 0;
  #isEnded = false;
  #failure: Error | undefined;

  constructor({ source, filter, before, lead, index, onEnd }: StreamOptions) {
    super();
    this.#source = source;
    this.filter = filter;
    this.#before = before.length === 0 ? undefined : [...before];
    this.#index = index;
    this.#lead = lead?.((seq) => {
      this.#index = source.find(seq);
    });
    this.#seq = source.lastSeq;
    this.#onEnd = onEnd;
    this.#tokens = source.ratePerSecond() * burstSeconds;
    this.#tokensMs = source.nowMs();
  }

  poll(onReady: () => void): IteratorResult<Event, undefined> | undefined {
    if (this.#failure !== undefined) {
      throw this.#failure;
    }
    if (this.#returned === maxPerTurn) {
      this.#onReady = onReady;
      setImmediate(() => {
        this.#returned = 0;
        this.#wake();
      });
      return undefined;
    }
    const value = this.#next ?? (this.#lead === undefined ? this.#take() : undefined);
    if (value !== undefined) {
      this.#next = undefined;
      this.#returned += 1;
      return { done: false, value };
    }
    this.#returned = 0;
    this.#onReady = onReady;
    if (this.#lead !== undefined) {
      void this.#readLead(this.#lead);
      return undefined;
    }
    return this.#isEnded ? { done: true, value: undefined } : undefined;
  }

  override return(): Promise<IteratorResult<Event, undefined>> {
    this.#failure = undefined;
    void this.#lead?.return?.();
    this.#lead = undefined;
    this.#next = undefined;
    this.#before = undefined;
    this.#missed = undefined;
    this.end();
    return super.return();
  }

  /** With an error, events that were not read are dropped. */
  end(error?: Error): void {
    if (!this.#isEnded) {
      this.#isEnded = true;
      this.#failure = error;
      this.#onEnd();
      this.#wake();
    }
  }

  notify(): void {
    const isPaused = this.#returned === maxPerTurn;
    if (this.#onReady !== undefined && this.#lead === undefined && !isPaused) {
      this.#next ??= this.#take();
      if (this.#next !== undefined) {
        this.#wake();
      }
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

  #wake(): void {
    const onReady = this.#onReady;
    this.#onReady = undefined;
    onReady?.();
  }

  async #readLead(lead: AsyncIterator<Event, void>): Promise<void> {
    if (this.#isLeadPending) {
      return;
    }
    this.#isLeadPending = true;
    try {
      const result = await lead.next();
      if (this.#lead !== undefined && result.done !== true) {
        this.#next = result.value;
      } else {
        this.#lead = undefined;
      }
    } catch (error) {
      this.end(error as Error);
      this.#failure ??= error as Error;
    }
    this.#isLeadPending = false;
    this.#wake();
  }

  #take(): Event | undefined {
    const before = this.#before?.shift();
    if (before !== undefined) {
      return before;
    }
    this.#before = undefined;
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
          if (isLossy(event)) {
            this.#tokens -= 1;
          }
          this.#seq = seq;
          this.#sentSeq = seq;
          this.#index += 1;
          return event;
        }
      }
      this.#seq = seq;
      this.#index += 1;
    }
    const bookmark = this.#bookmark;
    // What was read since may not have been sent, as the filter does not match it: the position is needed then.
    if (bookmark === undefined || bookmark.seq < this.#sentSeq) {
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
    const first = this.#missed?.entries().next().value;
    if (first === undefined) {
      return undefined;
    }
    const [reason, kinds] = first;
    this.#missed?.delete(reason);
    if (this.#missed?.size === 0) {
      this.#missed = undefined;
    }
    const count = kinds.values().reduce((sum, each) => sum + each, 0);
    this.#sentSeq = this.#seq;
    return this.#source.control(this.#seq, {
      case: "dropped",
      value: { reason, count, kinds: Object.fromEntries(kinds) },
    });
  }
}

function isLossy({ kind }: Event): boolean {
  return kind.case !== undefined && lossyCases.has(kind.case);
}
