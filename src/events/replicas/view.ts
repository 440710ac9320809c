import type { Logger } from "pino";
import type { Event } from "../../../gen/flowgate/v1/events_pb.ts";
import type { Replica } from "../../store/cluster.ts";
import {
  type EventFilter,
  type EventInit,
  eventCases,
  identify,
  stateKey,
  wantsDebug,
  withoutDebug,
} from "../events.ts";
import type { EventFeed } from "../feed.ts";
import type { EventHub } from "../hub.ts";
import type { Journal } from "../journal.ts";
import { parsePosition, positionBefore } from "../position.ts";
import { EventRing, type WatchStart } from "../ring.ts";
import type { DropReason, StreamEntry, EventStream } from "../stream.ts";
import { type ReplicaConnection, ReplicaLink } from "./link.ts";
import { Member, Members, readRecorded } from "./member.ts";

export type ViewOptions = {
  readonly hub: EventHub;
  readonly journal: Pick<Journal, "list">;
  readonly log: Logger;
  /** Rejects if the replica has no address. */
  readonly connect: (replica: Pick<Replica, "id">) => Promise<ReplicaConnection>;
  /** The events after this position are received, as far as replicas have them in memory. */
  readonly sinceSeq: number;
  /** The maximum wait for events of other replicas. */
  readonly waitMs?: number;
};

/** An event that waits for preceding events of other replicas. */
type Held = Pick<StreamEntry, "seq" | "event"> & { readonly member: Member | undefined; readonly sinceMs: number };

const defaultWaitMs = 1_500;

/** Timers may be early. */
const timerErrorMs = 10;

/**
 * The events of this replica and of all others, in the order of their positions: an event is distributed when the others have confirmed
 * that none of theirs comes before it. So a client can resume after any event at any replica. Events of a replica that confirms
 * nothing come late, after an event that says so.
 */
export class ReplicaView implements EventFeed, Disposable {
  readonly #options: ViewOptions & { readonly waitMs: number };
  readonly #ring: EventRing;
  readonly #members = new Members();
  readonly #subscriptions = new DisposableStack();
  #demand: EventStream;
  #debugSeq = Number.MAX_SAFE_INTEGER;
  #held: Held[] = [];
  #timer: NodeJS.Timeout | undefined;
  /**
   * The position at which the view begins. Events missing when it is ready are read from the journal for readers that
   * start earlier.
   */
  readonly #beginSeq: number;
  #isReady = false;
  readonly #becomesReady = Promise.withResolvers<void>();
  readonly ready = this.#becomesReady.promise;

  constructor(options: ViewOptions, replicas: readonly Replica[]) {
    const { hub, sinceSeq } = options;
    this.#options = { waitMs: defaultWaitMs, ...options };
    this.#ring = new EventRing({ runtime: hub.runtime, startSeq: sinceSeq });
    this.#beginSeq = Math.max(hub.lastSeq, positionBefore(Date.now()));
    hub.advance(this.#beginSeq);
    this.#held = hub.between(sinceSeq, this.#beginSeq).map(({ seq, event }) => this.#toHeld(seq, event, undefined));
    this.#subscriptions.use(
      hub.onEvent((event) => {
        this.#hold(parsePosition(event.id, "id"), event, undefined);
        this.#release();
      }),
    );
    this.#demand = this.#openDemand();
    this.#subscriptions.use(this.#ring.onDemand(() => this.#updateDemand()));
    this.#subscriptions.defer(() => this.#demand.end());
    this.update(replicas);
    this.#release();
  }

  get isReady(): boolean {
    return this.#isReady;
  }

  get lastSeq(): number {
    return this.#ring.lastSeq;
  }

  get startSeq(): number {
    return Math.max(this.#beginSeq, this.#ring.startSeq);
  }

  get debugSeq(): number {
    return this.#debugSeq;
  }

  hasAllAfter(seq: number): boolean {
    const { hub } = this.#options;
    return (
      seq >= Math.max(hub.startSeq, this.#ring.startSeq) &&
      this.#members.every(({ status, startSeq }) => status === "live" && startSeq <= seq)
    );
  }

  between(afterSeq: number, untilSeq: number): readonly StreamEntry[] {
    return this.#ring.between(afterSeq, untilSeq).toSorted((one, other) => one.seq - other.seq);
  }

  states(): readonly Event[] {
    const held = new Set(this.#held.map(({ event }) => event));
    const states = new Map<string, Event>();
    for (const event of this.#options.hub.states()) {
      if (!held.has(event)) {
        states.set(stateKey(event) ?? "", event);
      }
    }
    for (const member of this.#members) {
      for (const [key, event] of member.states()) {
        states.set(key, event);
      }
    }
    return [...states.values()];
  }

  missing(): readonly Event[] {
    return this.#members.lostNames().map((name) => this.#toMissing(name));
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

  /** Takes up the replicas that are there now. */
  update(replicas: readonly Replica[]): void {
    this.#members.update(
      replicas.filter(({ isSelf }) => !isSelf),
      (replica, leftSeq) => this.#open(replica, leftSeq),
    );
    this.#removeGone();
    this.#release();
  }

  [Symbol.dispose](): void {
    this.#subscriptions.dispose();
    clearTimeout(this.#timer);
    this.#members[Symbol.dispose]();
    this.#isReady = true;
    this.#becomesReady.resolve();
  }

  #removeGone(): void {
    for (const { name, lastSeq } of this.#members.removeGone()) {
      void this.#fill(name, lastSeq);
    }
  }

  /** `leftSeq` is the last position received if the replica was there before. */
  #open(replica: Replica, leftSeq: number | undefined): Member {
    const { name } = replica;
    const sinceSeq = leftSeq ?? (this.#isReady ? this.#beginSeq : this.#options.sinceSeq);
    const openLink = (member: Member): ReplicaLink =>
      new ReplicaLink({
        connect: () => this.#options.connect(replica),
        afterSeq: sinceSeq,
        wantsDebug: this.#ring.wantsDebug,
        onStart: (afterSeq, since) => {
          const isFirst = member.started(afterSeq);
          member.received(afterSeq);
          if (!isFirst && afterSeq > since) {
            void this.#fill(name, since);
          }
          this.#confirm(member);
          this.#release();
        },
        onState: (event) => member.addState(event),
        onEvent: (seq, event) => {
          this.#hold(seq, event, member);
          this.#received(member, seq);
        },
        onPosition: (seq) => this.#received(member, seq),
        onLost: (err) => this.#lose(member, err),
      });
    const member = new Member(name, sinceSeq, openLink);
    this.#schedule();
    return member;
  }

  /** A stream that nothing reads, so that the hub knows which of its events are wanted. */
  #openDemand(): EventStream {
    return this.#options.hub.watch({ cases: this.#ring.wantsDebug ? eventCases : withoutDebug });
  }

  #updateDemand(): void {
    const isWanted = this.#ring.wantsDebug;
    if (isWanted !== wantsDebug(this.#demand.filter)) {
      this.#demand.end();
      this.#demand = this.#openDemand();
      const received = Array.from(this.#members, ({ lastSeq }) => lastSeq);
      this.#debugSeq = isWanted ? Math.max(this.#options.sinceSeq, ...received) : Number.MAX_SAFE_INTEGER;
      for (const { link } of this.#members) {
        link.setDebug(isWanted);
      }
    }
  }

  /** Events and positions come after the states of a stream. */
  #received(member: Member, seq: number): void {
    member.received(seq);
    if (member.completeStates()) {
      // Confirms events held since the stream started.
      this.#confirm(member);
    }
    this.#release();
  }

  #confirm({ link }: Member): void {
    link.confirm(Math.max(this.#beginSeq, this.#held.at(-1)?.seq ?? 0));
  }

  #lose(member: Member, err: unknown): void {
    if (member.status === "lost") {
      return;
    }
    if (member.status === "live") {
      void this.#fill(member.name, member.lastSeq);
    }
    member.lose();
    this.#options.log.warn({ err, replica: member.name }, "another replica can't be reached for its events");
    // Streams that begin later have it from `missing`.
    const hasStreams = this.#isReady;
    // What was received before comes before the event that says so.
    this.#release();
    if (hasStreams && this.#members.lostNames().includes(member.name)) {
      this.#ring.push(this.lastSeq, this.#toMissing(member.name));
    }
    this.#removeGone();
  }

  #toMissing(name: string): Event {
    const reason: DropReason = "replica_unreachable";
    return Object.freeze(this.#ring.control(this.lastSeq, { case: "dropped", value: { reason } }, name));
  }

  #toHeld(seq: number, event: Event, member: Member | undefined): Held {
    return { seq, event, member, sinceMs: performance.now() };
  }

  #hold(seq: number, event: Event, member: Member | undefined): void {
    this.#options.hub.advance(seq);
    const before = this.#held.findLastIndex((held) => held.seq <= seq);
    this.#held.splice(before + 1, 0, this.#toHeld(seq, event, member));
    for (const other of this.#members) {
      if (other.status === "live" && other.lastSeq < seq && other !== member) {
        other.link.confirm(seq);
      }
    }
  }

  /** Distributes the events before which no replica can have another one. */
  #release(): void {
    if (!this.#isReady) {
      const isWaiting = this.#members.some(
        ({ status, lastSeq }) => status === "joining" || (status === "live" && lastSeq < this.#beginSeq),
      );
      if (isWaiting) {
        return;
      }
    }
    const limit = this.#members.confirmedSeq();
    const end = this.#held.findIndex(({ seq }) => seq > limit);
    const released = this.#held.splice(0, end === -1 ? this.#held.length : end);
    for (const { seq, event, member } of released) {
      member?.setState(event);
      if (!this.#isKnown(seq, event)) {
        this.#ring.push(seq, event);
      }
    }
    if (!this.#isReady) {
      this.#members.begin(this.#beginSeq);
      this.#ring.advance(this.#beginSeq);
      this.#isReady = true;
      this.#becomesReady.resolve();
    }
    this.#schedule();
  }

  #schedule(): void {
    const isJoining = this.#members.some(({ status }) => status === "joining");
    if (this.#timer === undefined && (this.#held.length > 0 || !this.#isReady || isJoining)) {
      const { waitMs } = this.#options;
      const dueMs = performance.now() + waitMs;
      this.#timer = setTimeout(() => {
        this.#timer = undefined;
        if (performance.now() < dueMs + waitMs / 2) {
          this.#expire();
        } else {
          // This process was paused, and has not read the others' messages.
          this.#schedule();
        }
      }, waitMs).unref();
    }
  }

  /** Gives up waiting for replicas that have confirmed nothing for too long. */
  #expire(): void {
    const untilMs = performance.now() - this.#options.waitMs + timerErrorMs;
    const [oldest] = this.#held;
    const neededSeq = oldest !== undefined && oldest.sinceMs <= untilMs ? oldest.seq : 0;
    for (const member of this.#members) {
      const { status, lastSeq, sinceMs } = member;
      const isBehind = status === "live" && lastSeq < (this.#isReady ? neededSeq : this.#beginSeq);
      if (isBehind || (status === "joining" && sinceMs <= untilMs)) {
        this.#lose(member, new Error("it does not respond in time"));
        member.link.restart();
      }
    }
    this.#release();
    this.#schedule();
  }

  /** True if streams have the event, or have had it from the journal. */
  #isKnown(seq: number, event: Event): boolean {
    if (seq > this.#ring.lastSeq) {
      return false;
    }
    const isOfBefore = this.#isReady && seq <= this.#beginSeq;
    return isOfBefore || this.#ring.between(seq - 1, seq).some((entry) => identify(entry.event) === identify(event));
  }

  /** Adds events of a replica from the journal that were not received. Events that it sends too are added once. */
  async #fill(name: string, afterSeq: number): Promise<void> {
    const { journal, log } = this.#options;
    try {
      const recorded = await readRecorded(journal, name, Math.max(afterSeq, this.#beginSeq, this.#ring.startSeq));
      for (const { seq, event } of recorded) {
        this.#hold(seq, Object.freeze(event), undefined);
      }
      this.#release();
    } catch (err) {
      log.debug({ err, replica: name }, "the journal was not read for the events of another replica");
    }
  }
}
