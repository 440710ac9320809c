import { type Event, LogLevel } from "../../gen/flowgate/v1/events_pb.ts";
import type { AffectedNodes } from "@flowgate/flows/compare";
import type { EventHub } from "../events/hub.ts";
import { cutText, type RevisionResult, type Runtime } from "@flowgate/runtime";
import type { ErrorLimit, Revision } from "../store/revision.ts";

type ErrorWatchOptions = {
  readonly revision: Revision;
  readonly limit: ErrorLimit;
  /** The nodes whose errors count. Must not reject. */
  readonly affected: Promise<AffectedNodes>;
  /** True if the time has begun already if the revision runs. */
  readonly countsEarlier: boolean;
  readonly runtime: Pick<Runtime, "lastResult" | "onResult" | "degrade">;
  readonly hub: Pick<EventHub, "onEvent">;
};

/** Errors that are kept until it is known whether they count. */
const maxUnknown = 1_000;

/**
 * Counts the errors that nodes log in the first time of a revision in the runtime of this process. If they are too many, the revision is
 * degraded there. What happens while the flows are started is part of their result, and the nodes before them may still log errors then.
 */
export class ErrorWatch implements Disposable {
  readonly #seq: number;
  readonly #limit: ErrorLimit;
  readonly #runtime: ErrorWatchOptions["runtime"];
  readonly #subscriptions = new DisposableStack();
  readonly #ready = Promise.withResolvers<void>();
  readonly #ended = Promise.withResolvers<void>();
  #affected: "all" | ReadonlySet<string> | undefined;
  #isCounting = false;
  #timer: NodeJS.Timeout | undefined;
  #unknown: Event[] = [];
  #first: Event | undefined;
  #count = 0;

  constructor({ revision, limit, affected, countsEarlier, runtime, hub }: ErrorWatchOptions) {
    this.#seq = revision.seq;
    this.#limit = limit;
    this.#runtime = runtime;
    this.#subscriptions.use(hub.onEvent((event) => this.#handleEvent(event)));
    this.#subscriptions.use(runtime.onResult((result) => this.#handleResult(result)));
    const last = runtime.lastResult();
    if (last !== undefined && countsEarlier) {
      this.#handleResult(last);
    }
    void affected.then((nodes) => this.#resolve(nodes));
  }

  /** Resolves when it is known which errors count, and those so far were counted. */
  get ready(): Promise<void> {
    return this.#ready.promise;
  }

  /** Resolves when nothing is counted any more. */
  get ended(): Promise<void> {
    return this.#ended.promise;
  }

  [Symbol.dispose](): void {
    clearTimeout(this.#timer);
    this.#subscriptions.dispose();
    this.#unknown = [];
    this.#ready.resolve();
    this.#ended.resolve();
  }

  #handleResult({ revision: { seq }, result }: RevisionResult): void {
    if (seq > this.#seq || (seq === this.#seq && result.outcome !== "running")) {
      this[Symbol.dispose]();
    } else if (seq === this.#seq) {
      // Flows that were interrupted start anew.
      clearTimeout(this.#timer);
      this.#isCounting = true;
      this.#timer = setTimeout(() => this.#end(), this.#limit.forMs).unref();
    }
  }

  #handleEvent(event: Event): void {
    const { kind } = event;
    if (!this.#isCounting || kind.case !== "nodeError" || kind.value.level > LogLevel.ERROR) {
      return;
    }
    if (this.#affected !== undefined) {
      this.#add(event, kind.value.count);
    } else if (this.#unknown.length < maxUnknown) {
      this.#unknown.push(event);
    }
  }

  #resolve(nodes: AffectedNodes): void {
    this.#affected = nodes === "all" ? nodes : new Set(nodes);
    for (const event of this.#unknown.splice(0)) {
      this.#add(event, event.kind.case === "nodeError" ? event.kind.value.count : 0);
    }
    this.#ready.resolve();
    // The time is over.
    if (this.#timer !== undefined && !this.#isCounting) {
      this[Symbol.dispose]();
    }
  }

  #add(event: Event, count: number): void {
    if (this.#subscriptions.disposed || !this.#includes(event)) {
      return;
    }
    this.#first ??= event;
    this.#count += count;
    const { maxErrors } = this.#limit;
    if (this.#count > maxErrors) {
      this[Symbol.dispose]();
      this.#runtime.degrade(this.#seq, describeErrors(this.#count, maxErrors, this.#first));
    }
  }

  #includes({ nodeId, flowId, subflowPath }: Event): boolean {
    const affected = this.#affected;
    return affected === "all" || [nodeId, flowId, ...subflowPath].some((id) => affected?.has(id));
  }

  #end(): void {
    this.#isCounting = false;
    if (this.#affected !== undefined) {
      this[Symbol.dispose]();
    }
  }
}

const maxNameChars = 64;
const maxErrorChars = 200;

function describeErrors(count: number, maxErrors: number, first: Event): string {
  const text = first.kind.case === "nodeError" ? first.kind.value.message : "";
  const line = text.split("\n", 1)[0] ?? "";
  return `nodes logged ${count} ${count === 1 ? "error" : "errors"} (max_errors: ${maxErrors}), first ${describeNode(first)}: ${quote(line, maxErrorChars)}`;
}

/** With its tab, or the subflow instance that contains it. */
function describeNode({ nodeId, nodeType, nodeName, flowId, flowLabel }: Event): string {
  const id = cutText(nodeId, maxNameChars);
  const name = nodeName === "" ? id : `${quote(nodeName)} (${id})`;
  const place = flowLabel || flowId;
  return `${cutText(nodeType, maxNameChars)} ${name}${place === "" ? "" : ` in ${quote(place)}`}`;
}

function quote(text: string, maxChars = maxNameChars): string {
  return JSON.stringify(text.length > maxChars ? `${cutText(text, maxChars)}…` : text);
}
