import { type JsonValue, utf8Length } from "./json.ts";
import { FlowgateError } from "./errors.ts";

/** The limits of one analysis of flows: a diff, a plan or a merge, with its text. */
export type Limits = {
  /** The nodes that a plan has to start, each counted once for each subflow instance that it is in. */
  readonly maxNodes: number;
  /** The subflow instances around these nodes, in total: nodes × depth. */
  readonly maxInstanceIds: number;
  /** The result: ids, names, values and messages, in UTF-8. Encoded in a protocol it is larger, but not by an order of magnitude. */
  readonly maxOutputBytes: number;
  /** From the creation of the budget. Checked between steps, so that it can be exceeded by one of them. None by default. */
  readonly maxMs: number;
};

/** Flows whose analysis exceeds these limits are not made by people: 10,000 nodes in three nested subflows take a tenth. */
const defaults: Limits = {
  maxNodes: 100_000,
  maxInstanceIds: 1_000_000,
  maxOutputBytes: 64 * 1024 * 1024,
  maxMs: Infinity,
};

/** How many nodes run, and how many subflow instances are around them in total. Infinite for a subflow that contains itself. */
export type RunningCount = { readonly nodes: number; readonly instanceIds: number };

/** The cost of one analysis so far. Each method throws `limit_exceeded` with the measure if a limit is exceeded. */
export class Budget {
  readonly #limits: Limits;
  readonly #deadline: number;
  #outputBytes = 0;
  #outputs = 0;

  constructor(limits: Partial<Limits> = {}) {
    this.#limits = { ...defaults, ...limits };
    this.#deadline = performance.now() + this.#limits.maxMs;
  }

  /** Before the nodes are started, since a few subflows in each other can multiply them to any number. */
  checkRunning({ nodes, instanceIds }: RunningCount): void {
    const { maxNodes, maxInstanceIds } = this.#limits;
    if (nodes > maxNodes) {
      throw exceeded(
        `more than ${maxNodes} nodes would run, those in instances of subflows included (${format(nodes)}): too many to plan; use fewer instances, or nest fewer subflows`,
      );
    }
    if (instanceIds > maxInstanceIds) {
      throw exceeded(
        `the ${nodes} nodes that would run are in ${format(instanceIds)} subflow instances, counted for each node, and a plan lists ${maxInstanceIds}: nest fewer subflows`,
      );
    }
  }

  /** Counts a part of the result: the bytes of its texts. Also checks the time. */
  addOutput(bytes: number): void {
    const { maxOutputBytes } = this.#limits;
    this.#outputBytes += bytes;
    if (this.#outputBytes > maxOutputBytes) {
      throw exceeded(
        `the result is larger than ${maxOutputBytes} bytes: change fewer nodes at once, or shorten their ids, names and values`,
      );
    }
    // Reading the clock takes longer than adding.
    this.#outputs = (this.#outputs + 1) % 256;
    if (this.#outputs === 0) {
      this.checkTime();
    }
  }

  checkTime(): void {
    if (performance.now() > this.#deadline) {
      throw exceeded(
        `the analysis takes longer than ${this.#limits.maxMs} ms: change fewer nodes at once, or make the flows smaller`,
      );
    }
  }
}

/** The size of the texts in a part of the output, in bytes. Each other value counts as one byte. */
export function sizeOf(value: JsonValue | undefined): number {
  if (typeof value === "string") {
    return utf8Length(value);
  }
  if (typeof value !== "object" || value === null) {
    return 1;
  }
  let bytes = 1;
  if (Array.isArray(value)) {
    for (const element of value) {
      bytes += sizeOf(element);
    }
    return bytes;
  }
  for (const key of Object.keys(value)) {
    bytes += sizeOf(key) + sizeOf(value[key]);
  }
  return bytes;
}

function exceeded(message: string): FlowgateError {
  return new FlowgateError("limit_exceeded", `flows: ${message}`);
}

function format(count: number): string {
  return count < 1e15 ? String(count) : count === Infinity ? "infinitely many" : count.toPrecision(3);
}
