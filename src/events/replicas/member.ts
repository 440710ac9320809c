import type { Event } from "../../../gen/flowgate/v1/events_pb.ts";
import type { Replica } from "../../store/cluster.ts";
import { isCleared, recordedCases, stateKey } from "../events.ts";
import { type Journal, type RecordedEvent, recordedBetween } from "../journal.ts";
import type { ReplicaLink } from "./link.ts";

/** The replicas that have left whose positions are known. */
const maxLeft = 1_000;

/** The recorded events that are read for a replica that was not reached meanwhile. */
const maxRecorded = 2_000;

export class Member {
  readonly name: string;
  readonly link: ReplicaLink;
  readonly sinceMs = performance.now();
  #states = new Map<string, Event>();
  /** The states of a stream that has started, until it is complete. */
  #nextStates: Map<string, Event> | undefined;
  /** Events wait for the events of `live` replicas, and at the beginning for those of `joining` ones. */
  #status: "joining" | "live" | "lost" = "joining";
  /** All events between these positions were received, or could not be. */
  #startSeq: number;
  #lastSeq: number;

  constructor(name: string, sinceSeq: number, openLink: (member: Member) => ReplicaLink) {
    this.name = name;
    this.#startSeq = sinceSeq;
    this.#lastSeq = sinceSeq;
    this.link = openLink(this);
  }

  get status(): "joining" | "live" | "lost" {
    return this.#status;
  }

  get startSeq(): number {
    return this.#startSeq;
  }

  get lastSeq(): number {
    return this.#lastSeq;
  }

  /** The last event about each state, by its key. */
  states(): Iterable<readonly [string, Event]> {
    return this.#states;
  }

  /** A stream has started. Returns whether it is the first one. */
  started(afterSeq: number): boolean {
    const isFirst = this.#status === "joining";
    this.#startSeq = isFirst ? afterSeq : this.#startSeq;
    this.#nextStates = new Map();
    return isFirst;
  }

  addState(event: Event): void {
    setState(this.#nextStates ?? this.#states, event);
  }

  /** All states of the stream have come. Returns whether they had not before. */
  completeStates(): boolean {
    if (this.#nextStates === undefined) {
      return false;
    }
    this.#states = this.#nextStates;
    this.#nextStates = undefined;
    this.#status = "live";
    return true;
  }

  /** The view is ready. Unless the replica is `live`, it is taken up from this position. */
  begin(seq: number): void {
    if (this.#status !== "live") {
      this.#startSeq = Math.max(this.#startSeq, seq);
      this.#lastSeq = Math.max(this.#lastSeq, seq);
    }
  }

  received(seq: number): void {
    this.#lastSeq = Math.max(this.#lastSeq, seq);
  }

  lose(): void {
    this.#status = "lost";
    this.#states.clear();
    this.#nextStates = undefined;
  }

  setState(event: Event): void {
    setState(this.#states, event);
  }
}

function setState(states: Map<string, Event>, event: Event): void {
  const key = stateKey(event);
  if (key === undefined) {
    return;
  }
  if (event.kind.case === "deployment") {
    // There is one active revision.
    for (const [other, { kind }] of states) {
      if (kind.case === "deployment") {
        states.delete(other);
      }
    }
  }
  states.delete(key);
  if (!isCleared(event)) {
    states.set(key, event);
  }
}

export class Members implements Iterable<Member>, Disposable {
  readonly #byId = new Map<string, Member>();
  #listed: ReadonlySet<string> = new Set();
  /** The last position that was received from a replica that has left, by its id: it may have been paused only. */
  readonly #left = new Map<string, number>();

  [Symbol.iterator](): Iterator<Member> {
    return this.#byId.values();
  }

  some(matches: (member: Member) => boolean): boolean {
    return this.#byId.values().some(matches);
  }

  every(matches: (member: Member) => boolean): boolean {
    return this.#byId.values().every(matches);
  }

  /** Until where all that are `live` have sent their events. */
  confirmedSeq(): number {
    const live = this.#byId.values().filter(({ status }) => status === "live");
    return live.reduce((seq, { lastSeq }) => Math.min(seq, lastSeq), Number.MAX_SAFE_INTEGER);
  }

  lostNames(): string[] {
    const lost = new Set<string>();
    const live = new Set<string>();
    for (const { name, status } of this) {
      if (status !== "joining") {
        (status === "lost" ? lost : live).add(name);
      }
    }
    return [...lost.difference(live)];
  }

  begin(seq: number): void {
    this.#byId.values().forEach((member) => member.begin(seq));
  }

  /** Adds new replicas. `leftSeq` is undefined unless the replica was there before. */
  update(listed: readonly Replica[], open: (replica: Replica, leftSeq: number | undefined) => Member): void {
    this.#listed = new Set(listed.map(({ id }) => id));
    for (const replica of listed) {
      const { id } = replica;
      if (!this.#byId.has(id)) {
        this.#byId.set(id, open(replica, this.#left.get(id)));
        this.#left.delete(id);
      }
    }
  }

  /**
   * Removes replicas that are neither listed nor `live`. After a failure of the database, replicas that have not
   * written to it yet are not listed.
   */
  removeGone(): Member[] {
    const gone = [...this.#byId].filter(([id, { status }]) => status !== "live" && !this.#listed.has(id));
    for (const [id, { link, lastSeq }] of gone) {
      this.#byId.delete(id);
      this.#left.set(id, lastSeq);
      link[Symbol.dispose]();
    }
    for (const id of this.#left.keys().take(Math.max(0, this.#left.size - maxLeft))) {
      this.#left.delete(id);
    }
    return gone.map(([, member]) => member);
  }

  [Symbol.dispose](): void {
    for (const { link } of this) {
      link[Symbol.dispose]();
    }
    this.#byId.clear();
  }
}

/** Reads the events that a replica has recorded after a position. */
export async function readRecorded(
  journal: Pick<Journal, "list">,
  name: string,
  afterSeq: number,
): Promise<RecordedEvent[]> {
  const recorded: RecordedEvent[] = [];
  const range = { afterSeq, untilSeq: Number.MAX_SAFE_INTEGER };
  for await (const entry of recordedBetween(journal, { cases: recordedCases }, range)) {
    if (entry.event.runtime === name && recorded.push(entry) === maxRecorded) {
      break;
    }
  }
  return recorded;
}
