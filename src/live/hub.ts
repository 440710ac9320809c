import { create } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { type Event, EventSchema } from "../../gen/flowgate/v1/events_pb.ts";
import { createListeners } from "../base/listeners.ts";
import { type EventFilter, type EventInit, sizeOf, stateKey } from "./events.ts";
import { formatPosition, maxOffset, nextSeq } from "./position.ts";
import { type Entry, EventStream, type StreamSource } from "./stream.ts";

export type EventHubOptions = {
  /** The name of the flow runtime; empty if there can be only one. */
  readonly runtime: string;
  /** That of the last event of the process before; 0 if there was none. */
  readonly lastSeq: number;
  /** The memory of recent events. */
  readonly capacityBytes?: number;
  /** The events of lossy kinds that all streams together get in a second. */
  readonly deliveriesPerSecond?: number;
  readonly now?: () => number;
};

export type WatchStart = {
  /** Sent first, before what is in memory. */
  readonly before?: readonly Event[];
  /** As `before`, if it takes time to find them. */
  readonly lead?: AsyncIterator<Event, void>;
  /** The stream has the events after this one; the default is the last one, so that it has new events only. */
  readonly afterSeq?: number;
  readonly onEnd?: () => void;
};

const defaultCapacityBytes = 8 * 1024 * 1024;

/** Each stream gets some, however many there are. */
const minPerSecond = 10;

/**
 * Distributes events to streams. It keeps recent events, bounded in memory; a stream is a position in them, not a queue of its own, so
 * that a slow reader takes no memory. What it misses is counted.
 */
export class EventHub implements StreamSource {
  #runtime: string;
  readonly #offset: number;
  readonly #capacityBytes: number;
  readonly #deliveriesPerSecond: number;
  readonly #now: () => number;
  readonly #published = createListeners<Event>();
  readonly #streams = new Set<EventStream>();
  /** The recent events. Those before `#head` were removed. */
  #entries: Entry[] = [];
  #head = 0;
  #bytes = 0;
  #lastSeq: number;
  /** The position after which all events are in memory. */
  #startSeq: number;
  /** The last event about each state, by its key. */
  readonly #states = new Map<string, Event>();

  constructor({
    runtime,
    lastSeq,
    capacityBytes = defaultCapacityBytes,
    deliveriesPerSecond = 20_000,
    now = Date.now,
  }: EventHubOptions) {
    this.#runtime = runtime;
    this.#offset = runtime === "" ? 0 : Math.floor(Math.random() * maxOffset);
    this.#capacityBytes = capacityBytes;
    this.#deliveriesPerSecond = deliveriesPerSecond;
    this.#now = now;
    this.#lastSeq = Math.max(lastSeq, nextSeq(lastSeq, now()) - 1);
    this.#startSeq = this.#lastSeq;
  }

  /** The position after the last event. */
  get lastSeq(): number {
    return this.#lastSeq;
  }

  /** Events after this position are in memory; of those before, only the journal has some. */
  get startSeq(): number {
    return this.#startSeq;
  }

  /** Replaces the name, which may be known only when the service listens. */
  rename(runtime: string): void {
    const states = this.states().filter((event) => event.runtime === this.#runtime);
    this.forget((event) => event.runtime === this.#runtime);
    this.#runtime = runtime;
    for (const event of states) {
      this.restore(Object.freeze({ ...event, runtime }));
    }
  }

  get streamCount(): number {
    return this.#streams.size;
  }

  publish(init: EventInit): Event {
    const nowMs = this.#now();
    this.#lastSeq = nextSeq(this.#lastSeq, nowMs, this.#offset);
    const event = create(EventSchema, {
      runtime: this.#runtime,
      ...init,
      id: formatPosition(this.#lastSeq),
      time: timestampFromMs(nowMs),
    });
    // Frozen messages are encoded once for all streams.
    Object.freeze(event);
    this.restore(event);
    this.#push({ seq: this.#lastSeq, event, bytes: sizeOf(event) });
    this.#published.notify(event);
    for (const stream of this.#streams) {
      stream.notify();
    }
    return event;
  }

  /** Adds a state that is not an event, at the current position. */
  remember(init: EventInit, timeMs = this.#now()): void {
    const id = formatPosition(this.#lastSeq);
    this.restore(
      Object.freeze(create(EventSchema, { runtime: this.#runtime, ...init, id, time: timestampFromMs(timeMs) })),
    );
  }

  /** Adds the state that an earlier event describes, if it does. */
  restore(event: Event): void {
    const key = stateKey(event);
    if (key !== undefined) {
      // Moves it behind the others.
      this.#states.delete(key);
      this.#states.set(key, event);
    }
  }

  /** Calls the listener with each event. */
  onEvent(listener: (event: Event) => void): Disposable {
    return this.#published.add(listener);
  }

  /** The last event about each state, in their order. */
  states(): Event[] {
    return [...this.#states.values()];
  }

  /** Forgets states that do not exist any more, such as those of nodes that were removed. */
  forget(isGone: (event: Event) => boolean): void {
    for (const [key, event] of this.#states) {
      if (isGone(event)) {
        this.#states.delete(key);
      }
    }
  }

  control(seq: number, kind: EventInit["kind"]): Event {
    return create(EventSchema, {
      id: formatPosition(seq),
      time: timestampFromMs(this.#now()),
      runtime: this.#runtime,
      kind,
    });
  }

  /** The stream ends when its iterator returns, or when the hub is closed. */
  watch(filter: EventFilter, { before = [], lead, afterSeq = this.#lastSeq, onEnd }: WatchStart = {}): EventStream {
    const stream = new EventStream({
      source: this,
      filter,
      before,
      lead,
      index: this.#find(afterSeq),
      onEnd: () => {
        this.#streams.delete(stream);
        onEnd?.();
      },
    });
    this.#streams.add(stream);
    return stream;
  }

  /** Sends every stream its position, so that clients see that the connection is alive and resume from there. */
  bookmark(): void {
    const event = this.control(this.#lastSeq, { case: "bookmark", value: {} });
    Object.freeze(event);
    for (const stream of this.#streams) {
      stream.bookmark(event);
    }
  }

  /** Ends all streams, with the error if there is one. */
  close(error?: Error): void {
    for (const stream of this.#streams) {
      stream.end(error);
    }
  }

  entryAt(index: number): Entry | undefined {
    return this.#entries[index - this.#head];
  }

  ratePerSecond(): number {
    return Math.max(minPerSecond, this.#deliveriesPerSecond / Math.max(1, this.#streams.size));
  }

  nowMs(): number {
    return this.#now();
  }

  #push(entry: Entry): void {
    this.#entries.push(entry);
    this.#bytes += entry.bytes;
    let removed = 0;
    while (this.#bytes > this.#capacityBytes && removed < this.#entries.length - 1) {
      const { seq, bytes, event } = this.#entries[removed] as Entry;
      for (const stream of this.#streams) {
        stream.removed(this.#head + removed, event);
      }
      this.#bytes -= bytes;
      this.#startSeq = seq;
      removed += 1;
    }
    if (removed > 0) {
      this.#entries.splice(0, removed);
      this.#head += removed;
    }
  }

  /** The index of the first entry after a position. */
  #find(seq: number): number {
    let low = 0;
    let high = this.#entries.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((this.#entries[middle] as Entry).seq <= seq) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return this.#head + low;
  }
}
