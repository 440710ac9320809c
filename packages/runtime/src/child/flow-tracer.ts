import { randomBytes } from "node:crypto";
import type { IncomingMessage, Server, ServerResponse } from "node:http";
import { parseTraceparent } from "@flowgate/base/traceparent";
import type { ParentChannel } from "../channel.ts";
import { type FlowSpan, type FlowSpans, type HttpExchange, maxRouteChars } from "../flow-spans.ts";
import { cutText } from "../node-events.ts";
import { formatWithItems, packEvents } from "./node-frames.ts";
import type { NodeLocator } from "./node-locator.ts";
import type { NodeRed, RunningNode } from "./node-red.ts";

/** The spans that are reported at once, and the time in which they are collected. */
const maxSpans = 200;
const flushMs = 100;

/** At least so many messages have a known place in a trace after nodes have copied them, and at most twice as many. */
const maxRecent = 10_000;

/** The runtime's are shorter; flows can use any. */
const maxIdChars = 100;

/** The place of a message in a trace: the span that its next one is a child of. */
type Place = { readonly traceId: string; readonly spanId?: string | undefined };

/** Of all messages that are not recorded. */
const unsampled: Place = { traceId: "" };

type OpenSpan = Place & { readonly parentSpanId: string | undefined; readonly startMs: number; hasFailed: boolean };

/** A message that flows send. */
type Message = { readonly _msgid?: unknown; readonly req?: unknown };

type HttpInNode = RunningNode & { readonly url?: unknown };

/** A request to an HTTP-in node, and its place in a trace as soon as the node has sent a message. */
type TracedRequest = IncomingMessage & { [arrival]?: { readonly startMs: number; place?: Place } };

const arrival = Symbol("arrival");

type FlowTracerOptions = {
  readonly nodeRed: Pick<NodeRed, "Node" | "util">;
  readonly locator: Pick<NodeLocator, "locate">;
  /** The server of HTTP-in nodes. */
  readonly server: Server;
  /** The fraction of the traces begun here that is recorded. */
  readonly ratio: number;
  readonly parent: Pick<ParentChannel, "sendJson">;
};

/**
 * Records a span for each message that a node processes. A message is the child of the span in which it was sent, even if it was
 * copied: copies have the same `_msgid`. It is created only if that is wanted, since it costs time for each message.
 */
export class FlowTracer {
  readonly #options: FlowTracerOptions;
  readonly #places = new WeakMap<object, Place>();
  /** The places of messages by their `_msgid`, and by the node that has received them with it. */
  #recent = new Map<string, Place>();
  /** Those before. Two maps, since finding the oldest key of one takes longer than all the rest. */
  #older = new Map<string, Place>();
  readonly #open = new WeakMap<RunningNode, WeakMap<object, OpenSpan>>();
  /** The node whose code runs, if it is known. */
  #current: { readonly node: RunningNode; readonly place: Place } | undefined;
  /** Of the node that reports an error, or its end, to nodes that receive a copy of its message for that. */
  #reporting: Place | undefined;
  #ended: FlowSpan[] = [];
  #dropped = 0;
  #unsent = 0;
  #isScheduled = false;

  constructor(options: FlowTracerOptions) {
    this.#options = options;
  }

  /** Must be called before there are nodes. `onSkipped` is called with what can't be traced. */
  start(onSkipped: (reason: string) => void): void {
    const { nodeRed, server } = this.#options;
    const { prototype } = nodeRed.Node;
    // oxlint-disable-next-line typescript/unbound-method
    const [emitInput, complete, error] = [prototype._emitInput, prototype._complete, prototype.error];
    if ([emitInput, complete, error].some((method) => typeof method !== "function")) {
      onSkipped("messages can't be traced with this version of the flow runtime");
      return;
    }
    const receive = (node: RunningNode, message: unknown): void => this.#receive(node, message, emitInput);
    const end = (node: RunningNode, message: unknown, failure: unknown): void => {
      this.#report(node, message, () => {
        this.#end(node, message, failure !== undefined && failure !== null);
        complete.call(node, message, failure);
      });
    };
    const fail = (node: RunningNode, values: Parameters<typeof error>): void => {
      this.#report(node, values[1], () => {
        this.#fail(node, values[1]);
        error.apply(node, values);
      });
    };

    prototype._emitInput = function (message) {
      receive(this, message);
    };
    prototype._complete = function (message, failure) {
      end(this, message, failure);
    };
    prototype.error = function (...values) {
      fail(this, values);
    };
    nodeRed.util.hooks.add("preDeliver.flowgate", ({ source, msg }) => this.#send(source.node as RunningNode, msg));
    server.prependListener("request", (request: TracedRequest) => {
      request[arrival] = { startMs: now() };
    });
  }

  #send(source: RunningNode, message: Message): void {
    const place =
      // Nodes may process several messages with the same id, such as the parts of one.
      this.#open.get(source)?.get(message) ??
      this.#recall(message, source) ??
      (this.#current?.node === source ? this.#current.place : undefined) ??
      this.#find(message) ??
      this.#begin(source, message);
    this.#places.set(message, place);
  }

  #receive(node: RunningNode, message: unknown, emitInput: (this: RunningNode, message: unknown) => void): void {
    if (typeof message !== "object" || message === null) {
      emitInput.call(node, message);
      return;
    }
    const parent = this.#reporting ?? this.#find(message) ?? this.#sample();
    const place = parent === unsampled ? unsampled : this.#beginSpan(node, message, parent);
    this.#places.set(message, place);
    this.#remember(message, place);
    if (place !== unsampled) {
      this.#remember(message, place, node);
    }
    const [current, reporting] = [this.#current, this.#reporting];
    this.#current = { node, place };
    this.#reporting = undefined;
    try {
      emitInput.call(node, message);
    } finally {
      this.#current = current;
      this.#reporting = reporting;
      // Such a node does not tell when it has processed a message.
      if (!((node as { _expectedDoneCount?: number })._expectedDoneCount ?? 0)) {
        this.#end(node, message, false);
      }
    }
  }

  #find(message: Message): Place | undefined {
    return this.#places.get(message) ?? this.#recall(message);
  }

  #recall(message: Message, receiver?: RunningNode): Place | undefined {
    const key = keyOf(message, receiver);
    return key === undefined ? undefined : (this.#recent.get(key) ?? this.#older.get(key));
  }

  #remember(message: Message, place: Place, receiver?: RunningNode): void {
    const key = keyOf(message, receiver);
    if (key === undefined) {
      return;
    }
    this.#recent.set(key, place);
    if (this.#recent.size >= maxRecent) {
      this.#older = this.#recent;
      this.#recent = new Map();
    }
  }

  #sample(): Place {
    return Math.random() < this.#options.ratio ? { traceId: createId(16) } : unsampled;
  }

  /** A node has sent a message by itself, which begins a trace, or continues that of the caller of an HTTP-in node. */
  #begin(source: RunningNode, { req }: Message): Place {
    const request = typeof req === "object" && req !== null ? (req as TracedRequest) : undefined;
    const arrived = request?.[arrival];
    if (request === undefined || arrived === undefined) {
      const place = this.#sample();
      return place === unsampled ? place : this.#recordStart(source, place);
    }
    return (arrived.place ??= this.#beginRequest(source, request, arrived.startMs));
  }

  #recordStart(source: RunningNode, { traceId }: Place): Place {
    const place = { traceId, spanId: createId(8) };
    const startMs = now();
    this.#record({ ...this.#options.locator.locate(source.id), ...place, startMs, endMs: startMs });
    return place;
  }

  #beginRequest(node: HttpInNode, request: IncomingMessage, startMs: number): Place {
    const caller = parseTraceparent(request.headers["traceparent"]);
    const { traceId } = caller?.isSampled === false ? unsampled : (caller ?? this.#sample());
    if (traceId === "") {
      return unsampled;
    }
    const place = { traceId, spanId: createId(8), ...(caller !== undefined && { parentSpanId: caller.spanId }) };
    const { res: response } = request as { res?: ServerResponse };
    response?.once("close", () => {
      const status = response.headersSent ? response.statusCode : 0;
      const http: HttpExchange = { method: request.method ?? "", route: routeOf(node), status };
      this.#record({ ...this.#options.locator.locate(node.id), ...place, startMs, endMs: now(), http });
    });
    return place;
  }

  #beginSpan(node: RunningNode, message: object, { traceId, spanId: parentSpanId }: Place): Place {
    const span: OpenSpan = { traceId, spanId: createId(8), parentSpanId, startMs: now(), hasFailed: false };
    const open = this.#open.get(node) ?? new WeakMap<object, OpenSpan>();
    this.#open.set(node, open.set(message, span));
    return span;
  }

  /** Catch and complete nodes receive the message while `run` does. */
  #report(node: RunningNode, message: unknown, run: () => void): void {
    const outer = this.#reporting;
    if (typeof message === "object" && message !== null) {
      this.#reporting = this.#open.get(node)?.get(message) ?? this.#recall(message, node) ?? outer;
    }
    try {
      run();
    } finally {
      this.#reporting = outer;
    }
  }

  #fail(node: RunningNode, message: unknown): void {
    const span = this.#open.get(node)?.get(message as object);
    if (span !== undefined) {
      span.hasFailed = true;
    }
  }

  #end(node: RunningNode, message: unknown, hasFailed: boolean): void {
    const open = this.#open.get(node);
    const span = open?.get(message as object);
    if (span === undefined) {
      return;
    }
    open?.delete(message as object);
    const { traceId, spanId = "", parentSpanId, startMs } = span;
    this.#record({
      ...this.#options.locator.locate(node.id),
      traceId,
      spanId,
      ...(parentSpanId !== undefined && { parentSpanId }),
      startMs,
      endMs: now(),
      ...((hasFailed || span.hasFailed) && { hasFailed: true }),
    });
  }

  #record(span: FlowSpan): void {
    if (this.#ended.length >= maxSpans) {
      this.#dropped += 1;
    } else {
      this.#ended.push(span);
    }
    this.#schedule();
  }

  #schedule(): void {
    if (!this.#isScheduled) {
      this.#isScheduled = true;
      setTimeout(() => this.#flush(), flushMs);
    }
  }

  #flush(): void {
    this.#isScheduled = false;
    // The parent is behind.
    if (this.#unsent > 0) {
      this.#schedule();
      return;
    }
    const { packed, count } = packEvents(this.#ended);
    const dropped = this.#dropped + this.#ended.length - count;
    this.#ended = [];
    this.#dropped = 0;
    for (const [index, spans] of packed.entries()) {
      this.#unsent += 1;
      const message: FlowSpans = { kind: "spans", spans: [], dropped: index === 0 ? dropped : 0 };
      this.#options.parent.sendJson(formatWithItems(message, spans), () => {
        this.#unsent -= 1;
      });
    }
  }
}

function keyOf({ _msgid: id }: Message, receiver?: RunningNode): string | undefined {
  if (typeof id !== "string" || id.length > maxIdChars) {
    return undefined;
  }
  return receiver === undefined ? id : `${id} ${receiver.id}`;
}

function routeOf({ url }: HttpInNode): string {
  return typeof url === "string" ? cutText(url, maxRouteChars) : "";
}

function createId(bytes: number): string {
  return randomBytes(bytes).toString("hex");
}

function now(): number {
  return performance.timeOrigin + performance.now();
}
