import type { IncomingMessage, Server, ServerResponse } from "node:http";
import { ProcessMeter } from "@flowgate/base/process-meter";
import { Series } from "@flowgate/base/series";
import {
  type Measurements,
  type NodeMeasurement,
  type ResponseClass,
  type TabMeasurement,
  maxMeasuredIdChars,
  maxReportedNodes,
  maxReportedTabs,
  reportMs,
} from "../measurements.ts";
import type { NodeLocator } from "./node-locator.ts";
import type { NodeRed, RunningNode } from "./node-red.ts";

/** Nodes and tabs that are measured separately; the others are one. */
const maxTabs = 1_000;
const maxNodes = 5_000;

/** A node of the flow runtime, with what is measured of it. */
type Metered = RunningNode & { [meter]?: NodeMeter };

const meter = Symbol("meter");

/** A request to an HTTP-in node, with the tab of the first node that has received it. */
type MeteredRequest = IncomingMessage & { [requestTab]?: TabMeter };

const requestTab = Symbol("tab");

type FlowMeterOptions = {
  readonly nodeRed: Pick<NodeRed, "Node">;
  readonly locator: Pick<NodeLocator, "locate">;
  /** The server of HTTP-in nodes. */
  readonly server: Server;
  /** True if each node is measured too, and not only its tab. */
  readonly byNode: boolean;
  readonly report: (measurements: Measurements) => void;
};

/** Measures what flows do, and reports it each second. It is created only if that is wanted, since each message is measured. */
export class FlowMeter {
  readonly #options: FlowMeterOptions;
  readonly #tabs = new Map<string, TabMeter>();
  readonly #nodes = new Map<string, NodeMeter>();
  readonly #process = new ProcessMeter();

  constructor(options: FlowMeterOptions) {
    this.#options = options;
  }

  /** Must be called before there are nodes. `onSkipped` is called with what can't be measured. */
  start(onSkipped: (reason: string) => void): void {
    this.#intercept(onSkipped);
    this.#options.server.prependListener("request", (request: MeteredRequest, response: ServerResponse) => {
      const startMs = performance.now();
      response.once("close", () =>
        (request[requestTab] ?? this.#findTab("", "")).respond(
          response.statusCode,
          (performance.now() - startMs) / 1_000,
        ),
      );
    });
    setInterval(() => this.#report(), reportMs).unref();
  }

  #intercept(onSkipped: (reason: string) => void): void {
    const { prototype } = this.#options.nodeRed.Node;
    // oxlint-disable-next-line typescript/unbound-method
    const [emitInput, complete, error] = [prototype._emitInput, prototype._complete, prototype.error];
    if ([emitInput, complete, error].some((method) => typeof method !== "function")) {
      onSkipped("what nodes do can't be measured with this version of the flow runtime");
      return;
    }
    const find = (node: Metered): NodeMeter => node[meter] ?? this.#meterOf(node);

    prototype._emitInput = function (message) {
      const found = find(this);
      found.receive(message);
      return emitInput.call(this, message);
    };
    prototype._complete = function (message, failure) {
      find(this).complete(message);
      return complete.call(this, message, failure);
    };
    prototype.error = function (...values) {
      find(this).fail();
      return error.apply(this, values);
    };
  }

  #meterOf(node: Metered): NodeMeter {
    const { flowId = "", flowLabel = "", nodeId, nodeType = "" } = this.#options.locator.locate(node.id);
    const tab = this.#findTab(flowId, flowLabel);
    const found = this.#findNode(nodeId, nodeType, tab);
    // Not enumerable, so that nodes look to flows as they did before.
    Object.defineProperty(node, meter, { value: found });
    return found;
  }

  #findTab(id: string, label: string): TabMeter {
    const key = this.#tabs.size >= maxTabs ? "" : shorten(id);
    const tab = this.#tabs.get(key) ?? new TabMeter(key);
    this.#tabs.set(key, tab);
    tab.label = key === "" ? "" : shorten(label);
    return tab;
  }

  /** The measurements of a subflow's node are summed over all instances. */
  #findNode(id: string, type: string, tab: TabMeter): NodeMeter {
    const key = shorten(id);
    const found = this.#nodes.get(key);
    if (found === undefined && this.#nodes.size < maxNodes) {
      const created = new NodeMeter(tab, { node: key, type: shorten(type) });
      this.#nodes.set(key, created);
      return created;
    }
    return found ?? new NodeMeter(tab);
  }

  #report(): void {
    const tabs = takeSome(this.#tabs, maxReportedTabs);
    const nodes = this.#options.byNode ? takeSome(this.#nodes, maxReportedNodes) : [];
    this.#nodes.forEach((node) => node.release());
    this.#options.report({ kind: "measurements", process: this.#process.take(), tabs, nodes });
  }
}

function shorten(text: string): string {
  return text.slice(0, maxMeasuredIdChars);
}

/** Takes the measurements of those that have changed. What is not taken now is taken next time, first of all. */
function takeSome<Value>(meters: Map<string, Meter<Value>>, max: number): Value[] {
  const taken: Value[] = [];
  for (const [key, each] of meters) {
    if (taken.length >= max) {
      break;
    }
    if (each.isChanged) {
      taken.push(each.take());
      meters.delete(key);
      meters.set(key, each);
    }
  }
  return taken;
}

type Meter<Value> = {
  readonly isChanged: boolean;
  /** Returns what was measured since it was taken last. */
  take(): Value;
};

class TabMeter implements Meter<TabMeasurement> {
  label = "";
  messages = 0;
  errors = 0;
  readonly durations = new Series({});
  readonly id: string;
  #responses: Partial<Record<ResponseClass, number>> = {};
  readonly #responseDurations = new Series({});

  constructor(id: string) {
    this.id = id;
  }

  get isChanged(): boolean {
    return this.messages + this.errors + this.durations.count + this.#responseDurations.count > 0;
  }

  respond(status: number, seconds: number): void {
    const name = `${Math.trunc(status / 100)}xx` as ResponseClass;
    this.#responses[name] = (this.#responses[name] ?? 0) + 1;
    this.#responseDurations.observe(seconds);
  }

  take(): TabMeasurement {
    const taken = {
      tab: this.id,
      label: this.label,
      messages: this.messages,
      errors: this.errors,
      durations: this.durations.take(),
      responses: this.#responses,
      responseDurations: this.#responseDurations.take(),
    };
    this.messages = 0;
    this.errors = 0;
    this.#responses = {};
    return taken;
  }
}

class NodeMeter implements Meter<NodeMeasurement> {
  readonly #tab: TabMeter;
  readonly #ref: Pick<NodeMeasurement, "node" | "type"> | undefined;
  /** The last message, and when it was received: most nodes complete one before they receive the next. */
  #last: object | undefined;
  #lastMs = 0;
  /** The same of others that are not completed. Those that never are do not stay in memory. */
  readonly #received = new WeakMap<object, number>();
  #messages = 0;
  #errors = 0;
  #count = 0;
  #seconds = 0;

  /** Without a reference, only its tab is measured. */
  constructor(tab: TabMeter, ref?: Pick<NodeMeasurement, "node" | "type">) {
    this.#tab = tab;
    this.#ref = ref;
  }

  get isChanged(): boolean {
    return this.#messages + this.#errors + this.#count > 0;
  }

  receive(message: unknown): void {
    this.#tab.messages += 1;
    this.#messages += 1;
    if (typeof message === "object" && message !== null) {
      this.release();
      this.#last = message;
      this.#lastMs = performance.now();
      const { req } = message as { req?: unknown };
      if (typeof req === "object" && req !== null) {
        (req as MeteredRequest)[requestTab] ??= this.#tab;
      }
    }
  }

  complete(message: unknown): void {
    const isLast = this.#last !== undefined && this.#last === message;
    const startMs = isLast ? this.#lastMs : this.#received.get(message as object);
    if (startMs !== undefined) {
      const seconds = (performance.now() - startMs) / 1_000;
      if (isLast) {
        this.#last = undefined;
      } else {
        this.#received.delete(message as object);
      }
      this.#tab.durations.observe(seconds);
      this.#count += 1;
      this.#seconds += seconds;
    }
  }

  /** Keeps the last message from staying in memory because of this meter. */
  release(): void {
    if (this.#last !== undefined) {
      this.#received.set(this.#last, this.#lastMs);
      this.#last = undefined;
    }
  }

  fail(): void {
    this.#tab.errors += 1;
    this.#errors += 1;
  }

  take(): NodeMeasurement {
    const { node, type } = this.#ref ?? { node: "", type: "" };
    const taken = {
      tab: this.#tab.id,
      node,
      type,
      messages: this.#messages,
      errors: this.#errors,
      count: this.#count,
      seconds: this.#seconds,
    };
    this.#messages = this.#errors = this.#count = this.#seconds = 0;
    return taken;
  }
}
