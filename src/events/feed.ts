import type { Event } from "../../gen/flowgate/v1/events_pb.ts";
import type { EventFilter, EventInit } from "./events.ts";
import type { WatchStart } from "./ring.ts";
import type { StreamEntry, EventStream } from "./stream.ts";

/** Events that streams read: of this process, or of all replicas. */
export interface EventFeed {
  /** The position after the last event. */
  readonly lastSeq: number;
  /** All events after this position are in memory, or will be; the journal may have earlier ones that are not. */
  readonly startSeq: number;
  /** The same for debug messages, which are received while streams want them. */
  readonly debugSeq: number;
  /** True if all events after a position, except debug messages, are in memory, as far as this process knows. */
  hasAllAfter(seq: number): boolean;
  /** The events in memory after one position and up to another one, in the order of their positions. */
  between(afterSeq: number, untilSeq: number): readonly StreamEntry[];
  /** The last event about each state, in their order. */
  states(): readonly Event[];
  /** An event for each replica whose events and states are missing. */
  missing(): readonly Event[];
  /** Creates an event that only one stream has, which is no event of its own but has a position. */
  control(seq: number, kind: EventInit["kind"]): Event;
  watch(filter: EventFilter, start?: WatchStart): EventStream;
}

/** A feed for one reader, who disposes of it at the end. */
export interface JoinedFeed extends Disposable {
  readonly feed: EventFeed;
  /** Resolves when the feed has the events of the other replicas, or can't get them; undefined: it has them. */
  readonly ready: Promise<void> | undefined;
}
