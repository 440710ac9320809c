import type { ProcessMeasurement } from "@flowgate/base/process-meter";
import { Series } from "@flowgate/base/series";
import { type Measurements, type NodeMeasurement, type ResponseClass, type TabMeasurement } from "./measurements.ts";

/** The counts of a tab since the service was started, or since the tab was last forgotten. */
type TabStats = {
  readonly tab: string;
  label: string;
  messages: number;
  errors: number;
  readonly durations: Series;
  readonly responses: Map<ResponseClass, number>;
  readonly responseDurations: Series;
};

type NodeStats = { -readonly [Name in keyof NodeMeasurement]: NodeMeasurement[Name] };

/** The tabs and nodes that are told apart. */
const maxTabs = 200;
const maxNodes = 2_000;

/** All others. The runtime gives ids without spaces to what an editor creates. */
const others = "(others)";

/** Tabs and nodes that have done nothing for so long make room for others. */
const forgottenMs = 60 * 60_000;

/** Without a report for so long, there is no process, or it is blocked. */
const staleMs = 10_000;

/** Sums up what the runtime processes measure. The memory is bounded, whatever ids flows make up. */
export class FlowStats {
  readonly #tabs: RecentMap<TabStats>;
  readonly #nodes: RecentMap<NodeStats>;
  readonly #now: () => number;
  #process: ProcessMeasurement | undefined;
  #reportedMs = 0;
  #cpuSeconds = 0;

  constructor(now: () => number = () => performance.now()) {
    this.#now = now;
    this.#tabs = new RecentMap(maxTabs, now);
    this.#nodes = new RecentMap(maxNodes, now);
  }

  add({ process, tabs, nodes }: Measurements): void {
    this.#process = process;
    this.#reportedMs = this.#now();
    this.#cpuSeconds += process.cpuSeconds;
    tabs.forEach((each) => this.#addTab(each));
    nodes.forEach((each) => this.#addNode(each));
  }

  tabs(): IteratorObject<TabStats> {
    return this.#tabs.values();
  }

  nodes(): IteratorObject<NodeStats> {
    return this.#nodes.values();
  }

  /** Undefined if there is no recent report. */
  process(): ProcessMeasurement | undefined {
    return this.#now() - this.#reportedMs < staleMs ? this.#process : undefined;
  }

  /** The CPU time of all processes. */
  cpuSeconds(): number {
    return this.#cpuSeconds;
  }

  #addTab({ tab, label, messages, errors, durations, responses, responseDurations }: TabMeasurement): void {
    const stats = this.#tabs.find(tab, createTab);
    stats.label = stats.tab === others ? others : label;
    stats.messages += messages;
    stats.errors += errors;
    stats.durations.add(durations);
    for (const [name, count] of Object.entries(responses) as [ResponseClass, number][]) {
      stats.responses.set(name, (stats.responses.get(name) ?? 0) + count);
    }
    stats.responseDurations.add(responseDurations);
  }

  #addNode({ tab, node, type, messages, errors, count, seconds }: NodeMeasurement): void {
    const stats = this.#nodes.find(node, (id) =>
      id === others ? createNode(others, others, others) : createNode(tab, id, type),
    );
    stats.messages += messages;
    stats.errors += errors;
    stats.count += count;
    stats.seconds += seconds;
  }
}

function createTab(tab: string): TabStats {
  const labels = { tab };
  return {
    tab,
    label: "",
    messages: 0,
    errors: 0,
    durations: new Series(labels),
    responses: new Map(),
    responseDurations: new Series(labels),
  };
}

function createNode(tab: string, node: string, type: string): NodeStats {
  return { tab, node, type, messages: 0, errors: 0, count: 0, seconds: 0 };
}

/** A map with one more entry for all that does not fit. */
class RecentMap<Value> {
  readonly #max: number;
  readonly #now: () => number;
  /** Those that were used last are last. */
  readonly #entries = new Map<string, { readonly value: Value; usedMs: number }>();
  #others: Value | undefined;

  constructor(max: number, now: () => number) {
    this.#max = max;
    this.#now = now;
  }

  find(key: string, create: (key: string) => Value): Value {
    const nowMs = this.#now();
    let entry = this.#entries.get(key);
    if (entry === undefined) {
      const [oldestKey, oldest] = this.#entries.entries().next().value ?? [];
      if (this.#entries.size >= this.#max && oldest !== undefined && nowMs - oldest.usedMs < forgottenMs) {
        return (this.#others ??= create(others));
      }
      if (this.#entries.size >= this.#max && oldestKey !== undefined) {
        this.#entries.delete(oldestKey);
      }
      entry = { value: create(key), usedMs: nowMs };
    }
    // Moves it behind the others.
    this.#entries.delete(key);
    entry.usedMs = nowMs;
    this.#entries.set(key, entry);
    return entry.value;
  }

  *values(): Generator<Value> {
    for (const { value } of this.#entries.values()) {
      yield value;
    }
    if (this.#others !== undefined) {
      yield this.#others;
    }
  }
}
