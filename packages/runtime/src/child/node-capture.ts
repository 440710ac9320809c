import type { ParentChannel } from "../channel.ts";
import {
  type EditorMessage,
  type NodeDebug,
  type NodeError,
  type NodeErrorLevel,
  type NodeEvent,
  type NodeStatus,
  isModuleTopic,
  maxEditorBytes,
  maxNameChars,
  maxStatusChars,
} from "../node-events.ts";
import type { Activity } from "./activity.ts";
import { formatLogged } from "./error-text.ts";
import type { RuntimeLogRecord } from "./log.ts";
import { NodeCounters } from "./node-counters.ts";
import { NodeErrors } from "./node-errors.ts";
import { formatEvents, packEvents, shorten } from "./node-frames.ts";
import type { NodeLocator } from "./node-locator.ts";
import type { NodeRed } from "./node-red.ts";

/** The time in which events are collected. */
const flushMs = 100;

/** The debug messages and editor messages that are reported at once. */
const maxMessages = 100;

/** The topics of which the retained message is known. */
const maxTopics = 1_000;

/** The nodes of which a status or a stop can wait to be reported. */
const maxWaiting = 10_000;

/** More statuses are not cleared when their nodes are removed. */
const maxShown = 20_000;

/** Those that are reported at once. */
const maxReported = 300;

/** The debug node shortens longer strings and arrays itself. */
const maxDebugLength = 1_000;

const errorLevels: Readonly<Record<number, NodeErrorLevel>> = { 10: "fatal", 20: "error", 30: "warn" };

type CaptureOptions = {
  readonly nodeRed: NodeRed;
  readonly locator: NodeLocator;
  readonly activity: Activity;
  readonly parent: Pick<ParentChannel, "sendJson">;
};

type StatusFields = Pick<NodeStatus, "text" | "fill" | "shape">;

/**
 * Reports what happens to nodes: statuses, debug messages and those of modules as the runtime sends them to an editor, errors and warnings, whether or not a
 * catch node receives them, and counts. It reports in batches, and no more than the parent reads; what is dropped is counted.
 */
export class NodeCapture {
  readonly #nodeRed: NodeRed;
  readonly #locator: NodeLocator;
  readonly #parent: Pick<ParentChannel, "sendJson">;
  readonly #errors: NodeErrors;
  readonly #counters: NodeCounters;
  readonly #statuses = new Map<string, StatusFields>();
  /** The nodes whose last status was not cleared. */
  readonly #shown = new Set<string>();
  readonly #stopped = new Set<string>();
  #messages: (NodeDebug | EditorMessage)[] = [];
  readonly #retained = new Set<string>();
  #dropped = noneDropped();
  #wantsDebug = false;
  #reportsStops = false;
  #timer: NodeJS.Timeout | undefined;
  /** The messages that were not written to the pipe yet. */
  #unsent = 0;

  constructor({ nodeRed, locator, activity, parent }: CaptureOptions) {
    this.#nodeRed = nodeRed;
    this.#locator = locator;
    this.#parent = parent;
    const locate = locator.locate.bind(locator);
    this.#errors = new NodeErrors(locate);
    this.#counters = new NodeCounters({ locate, activity, onChange: () => this.#schedule() });
  }

  /** Must be called when the runtime is initialized and has loaded no nodes. `onSkipped` is called with what can't be captured. */
  start(onSkipped: (reason: string) => void): void {
    const { util, runtime } = this.#nodeRed;
    // The handler of the debug node, which changes the records, is added later.
    util.log.addHandler({ emit: (_, record) => this.#handleLog(record) });
    void runtime.comms.addConnection({
      client: { session: "flowgate", send: (topic, data) => this.#handleTopic(topic, data) },
    });
    util.events.on("node-status", ({ id, status }) => {
      // The node was removed, of which an editor is not told.
      if (status === undefined) {
        this.#setStatus(String(id), {});
      }
    });
    util.events.on("comms", ({ topic, data, retain }) => this.#addEditorMessage(topic, data, retain === true));
    util.events.on("runtime-event", ({ id, payload = {}, retain }) =>
      this.#addEditorMessage(`notification/${id}`, payload, retain === true),
    );
    util.hooks.add("onReceive.flowgate", ({ destination }) => this.#counters.countMessage(destination.id));
    this.#intercept(onSkipped);
  }

  /** `reportsStops`: as in `Deploy`. */
  beginDeployment(reportsStops: boolean): void {
    this.#reportsStops = reportsStops;
  }

  setDebug(wantsDebug: boolean): void {
    this.#wantsDebug = wantsDebug;
  }

  /** Must be called before a log entry is sent, so that errors that were logged before it are reported before it. */
  beforeLog(): void {
    if (this.#errors.isPending) {
      this.flush();
    }
  }

  /** Reports what has happened until now. `all`: as `NodeErrors.take`. */
  flush(all = false): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    const nowMs = performance.now();
    const locate = this.#locator.locate.bind(this.#locator);
    const stops = [...this.#stopped];
    const stopped = stops.slice(0, maxReported);
    const statuses = [...this.#statuses].slice(0, maxReported);
    const ended = this.#errors.takeEnded();
    // What happens to a node that has started again is reported after its stop, which may be one of the next report.
    const later = new Set(stops.slice(maxReported));
    const isHeld = later.has.bind(later);
    const { errors, dropped } = this.#errors.take(nowMs, all, isHeld);
    const others: NodeEvent[] = [...errors.map(shortenError), ...this.#messages];
    const { packed, count } = packEvents([
      ...ended.map(shortenError),
      ...stopped.map((id): NodeEvent => ({ kind: "stopped", ...locate(id) })),
      ...statuses.map(([id, status]): NodeEvent => ({ kind: "status", ...locate(id), ...status })),
      ...others,
      ...this.#counters.take(nowMs, isHeld),
    ]);
    const countAfter = (...before: readonly (readonly unknown[])[]): number =>
      Math.max(0, count - before.reduce((sum, { length }) => sum + length, 0));
    stopped.slice(0, countAfter(ended)).forEach((id) => this.#stopped.delete(id));
    statuses.slice(0, countAfter(ended, stopped)).forEach(([id]) => this.#statuses.delete(id));
    this.#dropped.error += dropped;
    for (const event of [...ended.slice(count), ...others.slice(countAfter(ended, stopped, statuses))]) {
      this.#drop(event);
    }
    this.#messages = [];
    this.#send(packed);
    if (this.#isPending) {
      this.#schedule();
    }
  }

  /** Reports that a node has ended, after its errors so far. */
  end(id: string): void {
    this.#errors.end(id);
    if (this.#stopped.size < maxWaiting) {
      this.#stopped.add(id);
      this.#schedule();
    }
  }

  get #isPending(): boolean {
    return (
      this.#stopped.size > 0 ||
      this.#statuses.size > 0 ||
      this.#messages.length > 0 ||
      this.#errors.isPending ||
      this.#counters.isPending
    );
  }

  #drop(event: NodeEvent): void {
    if (event.kind === "error") {
      this.#dropped.error += event.count;
    } else if (event.kind === "debug" || event.kind === "editor") {
      this.#dropped[event.kind] += 1;
    }
  }

  #send(packed: readonly string[][]): void {
    const dropped = Object.fromEntries(Object.entries(this.#dropped).filter(([, count]) => count > 0));
    const hasDropped = Object.keys(dropped).length > 0;
    this.#dropped = noneDropped();
    const messages = packed.length === 0 && hasDropped ? [[]] : packed;
    for (const [index, events] of messages.entries()) {
      this.#unsent += 1;
      const isLast = index === messages.length - 1;
      this.#parent.sendJson(formatEvents(events, isLast && hasDropped ? dropped : undefined), () => {
        this.#unsent -= 1;
      });
    }
  }

  #schedule(): void {
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined;
      // The parent is behind. Meanwhile, events are counted and not kept.
      if (this.#unsent > 0) {
        this.#schedule();
      } else {
        this.flush();
      }
    }, flushMs);
  }

  /** Must not throw: it is called by nodes. */
  #handleLog({ level, id, msg }: RuntimeLogRecord): void {
    const name = errorLevels[level];
    if (name !== undefined && typeof id === "string") {
      this.#recordError(id, name, msg, false);
    }
  }

  #recordError(id: string, level: NodeErrorLevel, value: unknown, caught: boolean): void {
    try {
      this.#errors.record({ id, level, value, caught });
      this.#counters.countError(id, level === "warn");
      this.#schedule();
    } catch {
      this.#dropped.error += 1;
    }
  }

  /** Must not throw, as above. */
  #handleTopic(topic: string, data: unknown): void {
    try {
      if (topic.startsWith("status/")) {
        this.#setStatus(topic.slice("status/".length), readStatus(data));
      } else if (topic === "debug" && this.#wantsDebug) {
        this.#addDebug(data as DebugData);
      }
    } catch {
      this.#dropped[topic === "debug" ? "debug" : "status"] += 1;
    }
  }

  #setStatus(id: string, status: StatusFields): void {
    if (Object.values(status).some((text) => text !== "")) {
      if (this.#shown.size < maxShown) {
        this.#shown.add(id);
      }
    } else if (!this.#shown.delete(id)) {
      return;
    }
    if (!this.#statuses.has(id) && this.#statuses.size >= maxWaiting) {
      this.#dropped.status += 1;
      return;
    }
    this.#statuses.set(id, status);
    this.#schedule();
  }

  #addDebug(data: DebugData): void {
    // The debug node also shows errors and warnings, which the log has.
    if (data.level !== undefined || typeof data.id !== "string") {
      return;
    }
    this.#schedule();
    if (this.#messages.length >= maxMessages) {
      this.#dropped.debug += 1;
      return;
    }
    const { id, topic, property } = data;
    const { format, text } = this.#encode(data);
    const value = shorten(text);
    const isCut = Number(/\[(\d+)\]$/.exec(String(format))?.[1] ?? 0) > maxDebugLength;
    this.#messages.push({
      kind: "debug",
      ...this.#locator.locate(id),
      ...textField("topic", topic),
      ...textField("property", property),
      ...textField("format", format),
      value: value.text,
      ...((value.truncated || isCut) && { truncated: true }),
    });
  }

  /** Must not throw, as above. One that is not retained is needed only while an editor is open, or if it replaces a retained one. */
  #addEditorMessage(topic: unknown, data: unknown, retained: boolean): void {
    if (typeof topic !== "string" || !isModuleTopic(topic)) {
      return;
    }
    const isReplaced = this.#retained.delete(topic);
    if (retained && this.#retained.size < maxTopics) {
      this.#retained.add(topic);
    }
    if (!retained && !isReplaced && !this.#wantsDebug) {
      return;
    }
    this.#schedule();
    const json = toJson(data);
    if (json === undefined || this.#messages.length >= maxMessages) {
      this.#dropped.editor += 1;
    } else {
      this.#messages.push({ kind: "editor", topic, json, ...(retained && { retained }) });
    }
  }

  /** The value as text. Modules can publish debug messages too, with values of any type. */
  #encode({ format, msg }: DebugData): { readonly format: unknown; readonly text: string } {
    if (typeof msg === "string") {
      return { format, text: msg };
    }
    const encoded = readBigInt(msg) ?? this.#nodeRed.util.util.encodeObject({ msg }, { maxLength: maxDebugLength });
    const text = typeof encoded.msg === "string" ? encoded.msg : (readBigInt(encoded.msg)?.msg ?? formatLogged(msg));
    return { format: encoded.format, text };
  }

  /** Observes what the runtime reports to nobody. */
  #intercept(onSkipped: (reason: string) => void): void {
    const node = this.#nodeRed.Node.prototype;
    const flow = this.#nodeRed.Flow.prototype;
    // oxlint-disable-next-line typescript/unbound-method
    const [close, handleError] = [node.close, flow.handleError];
    if ([close, handleError].some((method) => typeof method !== "function")) {
      onSkipped(
        "errors that catch nodes receive, and stops of nodes, are not known with this version of the flow runtime",
      );
      return;
    }
    const counters = this.#counters;
    const stop = (id: string): void => {
      if (counters.remove(id) || this.#reportsStops) {
        this.end(id);
      } else {
        this.#errors.end(id);
      }
    };
    node.close = function (removed) {
      try {
        return close.call(this, removed);
      } finally {
        // Errors of its handlers are those of the node that ends, unless they wait for something.
        stop(this.id);
      }
    };
    // Flows pass an error to others, which contain them.
    let current: object | undefined;
    const record = (id: string, value: unknown): void => this.#recordError(id, "error", value, true);
    flow.handleError = function (source, value, ...others) {
      const outer = current;
      current = source;
      try {
        const handled = handleError.call(this, source, value, ...others);
        if (handled && outer !== source) {
          record(source.id, value);
        }
        return handled;
      } finally {
        current = outer;
      }
    };
  }
}

function noneDropped(): Record<"status" | "error" | "debug" | "editor", number> {
  return { status: 0, error: 0, debug: 0, editor: 0 };
}

/** Undefined: it is too long, or can't be written as JSON. */
function toJson(data: unknown): string | undefined {
  try {
    const json = JSON.stringify(data ?? null) ?? "null";
    return shorten(json, maxEditorBytes).truncated ? undefined : json.toWellFormed();
  } catch {
    return undefined;
  }
}

function shortenError(error: NodeError): NodeError {
  const message = shorten(error.message, 6_000);
  const stack = shorten(error.stack ?? "", 8_000);
  return {
    ...error,
    message: message.text,
    ...(stack.text !== "" && { stack: stack.text }),
    ...((message.truncated || stack.truncated) && { truncated: true }),
  };
}

/** A message of the debug node. */
type DebugData = Readonly<Partial<Record<"level" | "id" | "topic" | "property" | "format" | "msg", unknown>>>;

/** Node-RED encodes a BigInt as an object, and all other values as text. */
function readBigInt(value: unknown): { readonly format: string; readonly msg: string } | undefined {
  const { __enc__: isEncoded, type, data } = Object(value) as Readonly<Record<"__enc__" | "type" | "data", unknown>>;
  return isEncoded === true && type === "bigint" ? { format: type, msg: String(data) } : undefined;
}

function readStatus(data: unknown): StatusFields {
  const { text, fill, shape } = data as Readonly<Record<string, unknown>>;
  return { ...textField("text", text, maxStatusChars), ...textField("fill", fill), ...textField("shape", shape) };
}

function textField<Name extends string>(
  name: Name,
  value: unknown,
  maxChars = maxNameChars,
): { readonly [N in Name]?: string } {
  return ["string", "number", "boolean"].includes(typeof value)
    ? ({ [name]: String(value).slice(0, maxChars) } as { [N in Name]: string })
    : {};
}
