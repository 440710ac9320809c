import { LogLevel } from "../../gen/flowgate/v1/events_pb.ts";
import { enumValue } from "@flowgate/base/enums";
import {
  type LogEntry,
  type DroppedEvents,
  type EditorMessage,
  type NodeDebug,
  type NodeError,
  type NodeEvents,
  type NodeRef,
  type NodeStatus,
  isNodeError,
  maxEventCount,
} from "@flowgate/runtime";
import { BoundedMap } from "./bounded-map.ts";
import { type EventCase, type EventInit, charsOfNode, nodeFields } from "./events.ts";
import { FlowBudget, type Rates } from "./flow-budget.ts";
import type { EventHub } from "./hub.ts";
import { NodeStates, keyOfNode } from "./node-states.ts";

const droppedCases: Readonly<Record<keyof DroppedEvents, EventCase>> = {
  status: "nodeStatus",
  error: "nodeError",
  debug: "debug",
  editor: "editorMessage",
};

export type FlowEventsOptions = {
  readonly hub: EventHub;
  readonly rev: () => string;
  /** The level of the log: more verbose entries than this, and than `info`, are not published. */
  readonly level: LogEntry["level"];
  /** The publication limits of each kind. */
  readonly rates?: Rates;
  readonly now?: () => number;
};

const reportMs = 1_000;

/** After this time, statuses that were too many are tried again. */
const retryMs = 100;

/** Statuses that are cleared in one turn of the event loop. */
const maxClearsPerTurn = 250;

/**
 * Publishes the log of the runtime process, and the events of its nodes. Flows can write anything to its pipe, so there
 * is a budget here in addition to the process's own.
 */
export class FlowEvents implements Disposable {
  readonly nodes = new NodeStates();
  readonly #options: FlowEventsOptions;
  readonly #budget: FlowBudget;
  #dropped = new Map<EventCase, number>();
  #report: NodeJS.Timeout | undefined;
  /** The last statuses that were too many to be published, by node. */
  readonly #late = new BoundedMap<NodeStatus>({
    maxEntries: 10_000,
    maxBytes: 8 * 1024 * 1024,
    charsOf: charsOfStatus,
  });
  #retry: NodeJS.Timeout | undefined;
  #clearing: NodeJS.Immediate | undefined;
  /** The retained messages to editors, as JSON, by topic. */
  readonly #retained = new BoundedMap<string>({
    maxEntries: 100,
    maxBytes: 2 * 1024 * 1024,
    charsOf: ({ length }) => length,
  });

  constructor(options: FlowEventsOptions) {
    this.#options = options;
    this.#budget = new FlowBudget(options.rates, options.now);
  }

  /** Errors and warnings of nodes are not published: the process also reports them as such. */
  publishLog(entry: LogEntry): void {
    const { level, message, dropped } = entry;
    if (dropped !== undefined) {
      this.drop("log", dropped);
      return;
    }
    const severity = enumValue(LogLevel, level);
    if (isNodeError(entry) || severity > Math.max(LogLevel.INFO, enumValue(LogLevel, this.#options.level))) {
      return;
    }
    this.#publish(entry, message.length, { case: "log", value: { level: severity, count: 1, message } });
  }

  publishNodes({ events, dropped = {} }: NodeEvents): void {
    for (const [kind, count] of Object.entries(dropped) as [keyof DroppedEvents, number][]) {
      this.drop(droppedCases[kind], count);
    }
    for (const event of events) {
      switch (event.kind) {
        case "status":
          this.#publishStatus(event);
          break;
        case "error":
          this.#publishError(event);
          break;
        case "debug":
          this.#publishDebug(event);
          break;
        case "editor":
          this.#publishEditorMessage(event);
          break;
        case "counts":
          this.nodes.setCounts(nodeFields(event), event);
          break;
        case "stopped":
          this.nodes.stop(nodeFields(event));
      }
    }
  }

  /** Forgets the nodes of an exited runtime process. Their statuses are cleared, as far as the budget permits. */
  end(): void {
    this.#late.clear();
    const shown = this.nodes.all().filter(({ status }) => status !== undefined);
    // Other replicas know of them too.
    for (const [topic] of this.#retained.entries()) {
      this.#options.hub.publish({ kind: { case: "editorMessage", value: { topic } } });
    }
    this.#retained.clear();
    this.nodes.clear();
    this.#options.hub.forgetFlows();
    this.#clearStatuses(shown.map(({ node }) => node));
  }

  /** Counts events that were dropped, here or before. */
  drop(kind: EventCase, count = 1): void {
    if (count > 0) {
      this.#dropped.set(kind, Math.min(maxEventCount, (this.#dropped.get(kind) ?? 0) + count));
      this.#report ??= setTimeout(() => this.#publishDropped(), reportMs).unref();
    }
  }

  [Symbol.dispose](): void {
    clearTimeout(this.#retry);
    clearImmediate(this.#clearing);
    this.#publishDropped();
  }

  #publishStatus(event: NodeStatus): void {
    const key = keyOfNode(event);
    if (this.#budget.take("nodeStatus", charsOfStatus(event))) {
      this.#late.delete(key);
      this.#publishTaken(event);
    } else if (this.#late.set(key, event)) {
      this.#retry ??= setTimeout(() => this.#retryLate(), retryMs).unref();
    } else {
      this.drop("nodeStatus");
    }
  }

  #retryLate(): void {
    this.#retry = undefined;
    for (const [key, event] of this.#late.entries()) {
      if (!this.#budget.take("nodeStatus", charsOfStatus(event))) {
        this.#retry = setTimeout(() => this.#retryLate(), retryMs).unref();
        return;
      }
      this.#late.delete(key);
      this.#publishTaken(event);
    }
  }

  /** In several turns of the event loop: flows can have thousands of nodes. */
  #clearStatuses(nodes: readonly NodeRef[]): void {
    for (const node of nodes.slice(0, maxClearsPerTurn)) {
      if (!this.nodes.hasStatus(node) && this.#budget.take("nodeStatus", charsOfNode(node))) {
        const subflowPath = [...(node.subflowPath ?? [])];
        const kind = { case: "nodeStatus", value: {} } as const;
        this.#options.hub.publish({ rev: this.#options.rev(), ...node, subflowPath, kind });
      }
    }
    const rest = nodes.slice(maxClearsPerTurn);
    this.#clearing = rest.length > 0 ? setImmediate(() => this.#clearStatuses(rest)) : undefined;
  }

  #publishTaken(event: NodeStatus): void {
    const ref = nodeFields(event);
    const { text = "", fill = "", shape = "" } = event;
    const status = { text, fill, shape };
    const isKnown = this.nodes.setStatus(ref, status);
    if (isKnown === undefined) {
      this.drop("nodeStatus");
    } else if (isKnown) {
      this.#options.hub.publish({ rev: this.#options.rev(), ...ref, kind: { case: "nodeStatus", value: status } });
    }
  }

  #publishError(event: NodeError): void {
    const { level, message, stack = "", line = 0, column = 0, count, caught = false, truncated = false } = event;
    const value = { level: enumValue(LogLevel, level), message, stack, line, column, count, caught, truncated };
    const published = this.#publish(event, message.length + stack.length, { case: "nodeError", value }, count);
    this.nodes.setLastError(published, value);
  }

  #publishDebug(event: NodeDebug): void {
    const { topic = "", property = "", format = "", value, truncated = false } = event;
    this.#publish(event, value.length + topic.length, {
      case: "debug",
      value: { topic, property, format, value, truncated },
    });
  }

  #publishEditorMessage({ topic, json: data, retained = false }: EditorMessage): void {
    if (!this.#budget.take("editorMessage", topic.length + data.length)) {
      this.drop("editorMessage");
      return;
    }
    if (!retained) {
      this.#retained.delete(topic);
    }
    // Beyond the limits, editors that subscribe later do not receive it.
    const value = { topic, data, retained: retained && this.#retained.set(topic, data) };
    this.#options.hub.publish({ rev: this.#options.rev(), kind: { case: "editorMessage", value } });
  }

  #publish(node: Partial<NodeRef>, chars: number, kind: EventInit["kind"], count = 1): NodeRef {
    const ref = nodeFields(node);
    if (this.#budget.take(kind.case, chars + charsOfNode(node))) {
      this.#options.hub.publish({ rev: this.#options.rev(), ...ref, kind });
    } else {
      this.drop(kind.case, count);
    }
    return ref;
  }

  #publishDropped(): void {
    clearTimeout(this.#report);
    this.#report = undefined;
    const count = this.#dropped.values().reduce((sum, each) => Math.min(maxEventCount, sum + each), 0);
    if (count > 0) {
      const kinds = Object.fromEntries(this.#dropped);
      this.#dropped = new Map();
      this.#options.hub.publish({ kind: { case: "dropped", value: { reason: "flood", count, kinds } } });
    }
  }
}

function charsOfStatus({ text = "", fill = "", shape = "", ...node }: NodeStatus): number {
  return text.length + fill.length + shape.length + charsOfNode(node);
}
