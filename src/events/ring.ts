import { create } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { type Event, EventSchema } from "../../gen/flowgate/v1/events_pb.ts";
import { createListeners } from "@flowgate/base/listeners";
import { type EventCase, type EventFilter, type EventInit, sizeOf, wantsDebug } from "./events.ts";
import { formatPosition } from "./position.ts";
import { type StreamEntry, EventStream, type Lead, type StreamSource } from "./stream.ts";

export type EventRingOptions = {
  /** The name of the flow runtime that events about a stream itself have. */
  readonly runtime: string;
  /** The position before the first event. */
  readonly startSeq: number;
  /** The memory of recent events. */
  readonly capacityBytes?: number | undefined;
  /** The events of lossy kinds that all streams together get in a second. */
  readonly deliveriesPerSecond?: number | undefined;
  readonly now?: (() => number) | undefined;
};

export type WatchStart = {
  /** Sent first, before the events in memory. */
  readonly before?: readonly Event[];
  /** As `before`, if it takes time to find them. It chooses where the stream continues. */
  readonly lead?: Lead;
  /** The stream has the events after this one; the default is the last one, so that it has new events only. */
  readonly afterSeq?: number;
  readonly onEnd?: () => void;
};

/** Each stream gets some, however many there are. */
const minPerSecond = 10;

/** The part of the memory that is still used after the oldest events were removed. */
const keptShare = 63 / 64;

/**
 * Recent events, bounded in memory, and the streams that read them. A stream is a position, not a queue of its own, so that a slow reader
 * takes no memory. What it misses is counted.
 */
export class EventRing implements StreamSource {
  runtime: string;
  readonly #capacityBytes: number;
  readonly #deliveriesPerSecond: number;
  readonly #now: () => number;
  readonly #streams = new Set<EventStream>();
  readonly #demand = createListeners<void>();
  /** The recent events. Entries before `#head` were removed. */
  #entries: StreamEntry[] = [];
  #head = 0;
  #bytes = 0;
  #lastSeq: number;
  #startSeq: number;
  #isOrdered = true;

  constructor(options: EventRingOptions) {
    const {
      runtime,
      startSeq,
      capacityBytes = 8 * 1024 * 1024,
      deliveriesPerSecond = 20_000,
      now = Date.now,
    } = options;
    this.runtime = runtime;
    this.#capacityBytes = capacityBytes;
    this.#deliveriesPerSecond = deliveriesPerSecond;
    this.#now = now;
    this.#lastSeq = startSeq;
    this.#startSeq = startSeq;
  }

  get lastSeq(): number {
    return this.#lastSeq;
  }

  /** Events after this position are in memory, if they were ever. */
  get startSeq(): number {
    return this.#startSeq;
  }

  get streamCount(): number {
    return this.#streams.size;
  }

  /** Moves the position after the last event forward, without an event. */
  advance(seq: number): void {
    this.#lastSeq = Math.max(this.#lastSeq, seq);
  }

  /** Adds an event at the end, also if its position is an earlier one. */
  push(seq: number, event: Event): void {
    this.#isOrdered &&= seq > (this.#entries.at(-1)?.seq ?? 0);
    this.advance(seq);
    this.#entries.push({ seq, event, bytes: sizeOf(event) });
    this.#bytes += this.#entries.at(-1)?.bytes ?? 0;
    this.#removeOldest();
    // An iterator would create an object for each stream.
    this.#streams.forEach(notify);
  }

  between(afterSeq: number, untilSeq: number): StreamEntry[] {
    return this.#entries.filter(({ seq }) => seq > afterSeq && seq <= untilSeq);
  }

  control(seq: number, kind: EventInit["kind"], runtime = this.runtime): Event {
    return create(EventSchema, { id: formatPosition(seq), time: timestampFromMs(this.#now()), runtime, kind });
  }

  /** The stream ends when its iterator returns, or when the ring is closed. */
  watch(filter: EventFilter, { before = [], lead, afterSeq, onEnd }: WatchStart = {}): EventStream {
    const stream = new EventStream({
      source: this,
      filter,
      before,
      lead,
      index: afterSeq === undefined ? this.#head + this.#entries.length : this.find(afterSeq),
      onEnd: () => {
        this.#streams.delete(stream);
        this.#demand.notify();
        onEnd?.();
      },
    });
    this.#streams.add(stream);
    this.#demand.notify();
    return stream;
  }

  wants(kind: EventCase): boolean {
    return this.#streams.values().some(({ filter }) => filter.cases.has(kind));
  }

  get wantsDebug(): boolean {
    return this.#streams.values().some(({ filter }) => wantsDebug(filter));
  }

  onDemand(listener: () => void): Disposable {
    return this.#demand.add(listener);
  }

  /** Sends every stream its position, so that clients see that the connection is alive and resume from there. */
  bookmark(): void {
    const event = Object.freeze(this.control(this.#lastSeq, { case: "bookmark", value: {} }));
    for (const stream of this.#streams) {
      stream.bookmark(event, this.#lastSeq);
    }
  }

  close(error?: Error): void {
    for (const stream of this.#streams) {
      stream.end(error);
    }
  }

  entryAt(index: number): StreamEntry | undefined {
    return this.#entries[index - this.#head];
  }

  /** The index of the first entry after a position. */
  find(seq: number): number {
    if (!this.#isOrdered) {
      // After the entry itself if it is there, since late entries have earlier positions.
      const own = this.#entries.findIndex((entry) => entry.seq === seq);
      const later = own === -1 ? this.#entries.findIndex((entry) => entry.seq > seq) : own + 1;
      return this.#head + (later === -1 ? this.#entries.length : later);
    }
    let low = 0;
    let high = this.#entries.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((this.#entries[middle] as StreamEntry).seq <= seq) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return this.#head + low;
  }

  ratePerSecond(): number {
    return Math.max(minPerSecond, this.#deliveriesPerSecond / Math.max(1, this.#streams.size));
  }

  nowMs(): number {
    return this.#now();
  }

  #removeOldest(): void {
    if (this.#bytes <= this.#capacityBytes) {
      return;
    }
    // Several at once, as removal moves all that remain.
    const keptBytes = this.#capacityBytes * keptShare;
    let removed = 0;
    while (this.#bytes > keptBytes && removed < this.#entries.length - 1) {
      const { seq, bytes, event } = this.#entries[removed] as StreamEntry;
      for (const stream of this.#streams) {
        stream.removed(this.#head + removed, event);
      }
      this.#bytes -= bytes;
      this.#startSeq = Math.max(this.#startSeq, seq);
      removed += 1;
    }
    this.#entries.splice(0, removed);
    this.#head += removed;
  }
}

function notify(stream: EventStream): void {
  stream.notify();
}
