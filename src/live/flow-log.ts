import { LogLevel } from "../../gen/flowgate/v1/events_pb.ts";
import type { LogEntry } from "../runtime/messages.ts";
import { maxLineChars } from "../runtime/output.ts";
import type { EventCase, EventInit } from "./events.ts";
import type { EventHub } from "./hub.ts";
import type { Redactor } from "./redactor.ts";

const levels: Readonly<Record<LogEntry["level"], LogLevel>> = {
  fatal: LogLevel.FATAL,
  error: LogLevel.ERROR,
  warn: LogLevel.WARN,
  info: LogLevel.INFO,
  debug: LogLevel.DEBUG,
  trace: LogLevel.TRACE,
};

type Rate = { readonly perSecond: number; readonly burst: number };

export type FlowLogOptions = {
  readonly hub: EventHub;
  readonly redactor: () => Redactor;
  /** The active revision. */
  readonly rev: () => string;
  /** The level of the log: more verbose entries than this, and than `info`, are not published. */
  readonly level: LogEntry["level"];
  /** What is published of the events of flows, and of their characters. */
  readonly events?: Rate;
  readonly chars?: Rate;
  readonly now?: () => number;
};

/** The time between two reports of what was dropped. */
const reportMs = 1_000;

/**
 * Publishes what the process of the flows logs. Flows can write anything to its pipe, so it has a budget, whether or not the
 * process keeps to one of its own.
 */
export class FlowLog implements Disposable {
  readonly #options: FlowLogOptions;
  readonly #events: Budget;
  readonly #chars: Budget;
  #dropped = new Map<EventCase, number>();
  #report: NodeJS.Timeout | undefined;

  constructor(options: FlowLogOptions) {
    const {
      events = { perSecond: 200, burst: 2_000 },
      chars = { perSecond: 256 * 1024, burst: 8 * 1024 * 1024 },
      now = () => performance.now(),
    } = options;
    this.#options = options;
    this.#events = new Budget(events, now);
    this.#chars = new Budget(chars, now);
  }

  publish(entry: LogEntry): void {
    const { level, message, nodeId, nodeType = "", nodeName = "", flowId = "" } = entry;
    if (levels[level] > Math.max(LogLevel.INFO, levels[this.#options.level])) {
      return;
    }
    const isNodeError = nodeId !== undefined && levels[level] <= LogLevel.WARN;
    if (!this.#events.take(1) || !this.#chars.take(message.length)) {
      this.drop(isNodeError ? "nodeError" : "log");
      return;
    }
    const redactor = this.#options.redactor();
    const redact = (text: string): string => redactor.redact(text, text.length >= maxLineChars);
    const node = {
      nodeId: redact(nodeId ?? ""),
      nodeType: redact(nodeType),
      nodeName: redact(nodeName),
      flowId: redact(flowId),
    };
    const common = { rev: this.#options.rev(), ...node };
    this.#options.hub.publish({
      ...common,
      kind: isNodeError
        ? { case: "nodeError", value: { level: levels[level], count: 1, ...splitStack(redact(message)) } }
        : { case: "log", value: { level: levels[level], count: 1, message: redact(message) } },
    } satisfies EventInit);
  }

  /** Counts events that were dropped, here or before. */
  drop(kind: EventCase, count = 1): void {
    this.#dropped.set(kind, (this.#dropped.get(kind) ?? 0) + count);
    this.#report ??= setTimeout(() => this.#publishDropped(), reportMs).unref();
  }

  [Symbol.dispose](): void {
    this.#publishDropped();
  }

  #publishDropped(): void {
    clearTimeout(this.#report);
    this.#report = undefined;
    const count = this.#dropped.values().reduce((sum, each) => sum + each, 0);
    if (count > 0) {
      const kinds = Object.fromEntries(this.#dropped);
      this.#dropped = new Map();
      this.#options.hub.publish({ kind: { case: "dropped", value: { reason: "flood", count, kinds } } });
    }
  }
}

/** Separates an error from its calls, of which those inside of the flow runtime say nothing about the flows. */
function splitStack(text: string): { readonly message: string; readonly stack: string; readonly truncated: boolean } {
  const start = text.search(/\n\s+at /);
  const message = start === -1 ? text : text.slice(0, start);
  const calls = start === -1 ? [] : text.slice(start + 1).split("\n");
  const stack = calls.filter((line) => !/[\\/]node_modules[\\/]|at node:|\(node:/.test(line)).join("\n");
  return { message, stack, truncated: text.length >= maxLineChars };
}

class Budget {
  readonly #rate: Rate;
  readonly #now: () => number;
  #left: number;
  #atMs: number;

  constructor(rate: Rate, now: () => number) {
    this.#rate = rate;
    this.#now = now;
    this.#left = rate.burst;
    this.#atMs = now();
  }

  take(amount: number): boolean {
    const nowMs = this.#now();
    const { perSecond, burst } = this.#rate;
    this.#left = Math.min(burst, this.#left + ((nowMs - this.#atMs) / 1_000) * perSecond);
    this.#atMs = nowMs;
    if (this.#left < amount) {
      return false;
    }
    this.#left -= amount;
    return true;
  }
}
