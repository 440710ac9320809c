import { create, toBinary } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import type { Logger } from "pino";
import { type Event, EventSchema } from "../../gen/flowgate/v1/events_pb.ts";
import { createListeners } from "@flowgate/base/listeners";
import { type EventCase, type EventFilter, type EventInit, isCleared, stateKey } from "./events.ts";
import type { EventFeed } from "./feed.ts";
import { formatPosition, latestSeq, maxOffset, nextSeq } from "./position.ts";
import { EventRing, type EventRingOptions, type WatchStart } from "./ring.ts";
import type { DropReason, StreamEntry, EventStream } from "./stream.ts";

export type EventHubOptions = Pick<EventRingOptions, "capacityBytes" | "deliveriesPerSecond" | "now"> & {
  /** The name of the flow runtime; empty if there can be only one. */
  readonly runtime: string;
  /** The sequence number of the previous process's last event; 0 if there was none. */
  readonly lastSeq: number;
  /** Logs events that could not be encoded. Absent: they are not logged. */
  readonly log?: Pick<Logger, "error"> | undefined;
};

/** Gives the events of this process their positions, distributes them to streams, and knows the current state. */
export class EventHub implements EventFeed {
  readonly #offset: number;
  readonly #now: () => number;
  readonly #log: EventHubOptions["log"];
  readonly #published = createListeners<Event>();
  readonly #ring: EventRing;
  /** The last event about each state, by its key. */
  readonly #states = new Map<string, Event>();

  constructor({ runtime, lastSeq, log, now = Date.now, ...options }: EventHubOptions) {
    this.#offset = runtime === "" ? 0 : Math.floor(Math.random() * maxOffset);
    this.#now = now;
    this.#log = log;
    const startSeq = Math.max(lastSeq, nextSeq(lastSeq, now()) - 1);
    this.#ring = new EventRing({ runtime, startSeq, now, ...options });
  }

  get runtime(): string {
    return this.#ring.runtime;
  }

  get lastSeq(): number {
    return this.#ring.lastSeq;
  }

  get startSeq(): number {
    return this.#ring.startSeq;
  }

  get debugSeq(): number {
    return this.startSeq;
  }

  get streamCount(): number {
    return this.#ring.streamCount;
  }

  /** Replaces the name, which may be known only when the service listens. */
  rename(runtime: string): void {
    const isOwn = (event: Event): boolean => event.runtime === this.runtime;
    const states = this.states().filter(isOwn);
    this.forget(isOwn);
    this.#ring.runtime = runtime;
    for (const event of states) {
      this.restore(Object.freeze({ ...event, runtime }));
    }
  }

  /** If the event can't be encoded, one is published that counts it as dropped. */
  publish(init: EventInit): Event {
    const nowMs = this.#now();
    const seq = nextSeq(this.lastSeq, nowMs, this.#offset);
    const event = this.#create(init, seq, nowMs);
    if (event === undefined) {
      const reason: DropReason = "not_encoded";
      return this.publish({ kind: { case: "dropped", value: { reason, count: 1, kinds: { [init.kind.case]: 1 } } } });
    }
    this.restore(event);
    this.#ring.push(seq, event);
    this.#published.notify(event);
    return event;
  }

  /** Gives later events positions after this one, unless it is too far in the future. */
  advance(seq: number): void {
    this.#ring.advance(Math.min(seq, latestSeq(this.#now())));
  }

  /** Adds a state that is not an event, at the current position, unless it can't be encoded. */
  remember(init: EventInit, timeMs = this.#now()): void {
    const event = this.#create(init, this.lastSeq, timeMs);
    if (event !== undefined) {
      this.restore(event);
    }
  }

  /** Adds the state that an earlier event describes, if it does. */
  restore(event: Event): void {
    const key = stateKey(event);
    if (key !== undefined) {
      // Moves it behind the others.
      this.#states.delete(key);
      if (!isCleared(event)) {
        this.#states.set(key, event);
      }
    }
  }

  wants(kind: EventCase): boolean {
    return this.#ring.wants(kind);
  }

  /** True if a stream has events that the flow runtime reports only then. */
  get wantsDebug(): boolean {
    return this.#ring.wantsDebug;
  }

  onDemand(listener: () => void): Disposable {
    return this.#ring.onDemand(listener);
  }

  onEvent(listener: (event: Event) => void): Disposable {
    return this.#published.add(listener);
  }

  states(): Event[] {
    return [...this.#states.values()];
  }

  /** Forgets states that do not exist any more, such as the states of removed nodes. */
  forget(isGone: (event: Event) => boolean): void {
    for (const [key, event] of this.#states) {
      if (isGone(event)) {
        this.#states.delete(key);
      }
    }
  }

  /** Forgets the states set by this process's flows, which have ended. */
  forgetFlows(): void {
    const isOfFlows = ({ kind }: Event): boolean => kind.case === "nodeStatus" || kind.case === "editorMessage";
    this.forget((event) => isOfFlows(event) && event.runtime === this.runtime);
  }

  hasAllAfter(seq: number): boolean {
    return seq >= this.startSeq;
  }

  missing(): readonly Event[] {
    return [];
  }

  between(afterSeq: number, untilSeq: number): StreamEntry[] {
    return this.#ring.between(afterSeq, untilSeq);
  }

  control(seq: number, kind: EventInit["kind"]): Event {
    return this.#ring.control(seq, kind);
  }

  watch(filter: EventFilter, start?: WatchStart): EventStream {
    return this.#ring.watch(filter, start);
  }

  bookmark(): void {
    this.#ring.bookmark();
  }

  close(error?: Error): void {
    this.#ring.close(error);
  }

  /** Undefined if it can't be encoded, which is a bug: each stream that has it would end, and the journal could not record it. */
  #create(init: EventInit, seq: number, timeMs: number): Event | undefined {
    const event = create(EventSchema, {
      runtime: this.runtime,
      ...init,
      id: formatPosition(seq),
      time: timestampFromMs(timeMs),
    });
    try {
      toBinary(EventSchema, event);
      assertWellFormed(event);
    } catch (err) {
      this.#log?.error({ err, kind: init.kind.case }, "an event could not be encoded");
      return undefined;
    }
    // Frozen messages are encoded once for all streams.
    return Object.freeze(event);
  }
}

/** JSON has no lone surrogates either, which the binary format replaces. */
function assertWellFormed(value: unknown): void {
  if (typeof value === "string" && !value.isWellFormed()) {
    throw new RangeError("a text has a lone surrogate");
  }
  if (typeof value === "object" && value !== null) {
    Object.values(value).forEach(assertWellFormed);
  }
}
