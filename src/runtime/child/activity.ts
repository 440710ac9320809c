import type { FlowNode } from "../../flows/configuration.ts";
import type { NodeRef } from "../node-events.ts";
import type { NodeLocator } from "./node-locator.ts";

/** Nodes that the watchdog can name. */
const maxNodes = 4_096;

/** The memory for a node: the length of its JSON, in two bytes, and JSON. */
export const nodeBytes = 512;

/** The number of the last active node, that of ticks, and that of nodes. Numbers of nodes begin with 1. */
export const headerBytes = 16;

/** What the threads of this process share: which node has received a message last, and whether the event loop runs. */
export type SharedActivity = SharedArrayBuffer;

/**
 * Writes for the watchdog, which reads it while the event loop is blocked, what the event loop does. A node is described when it is added, so that
 * a message costs one write.
 */
export class Activity {
  readonly shared: SharedActivity = new SharedArrayBuffer(headerBytes + maxNodes * nodeBytes);
  readonly #header = new Int32Array(this.shared, 0, headerBytes / Int32Array.BYTES_PER_ELEMENT);
  readonly #bytes = new Uint8Array(this.shared);
  readonly #numbers = new Map<string, number>();

  /** Returns the number of a node; 0 if there are too many. */
  add(id: string, ref: NodeRef): number {
    const known = this.#numbers.get(id);
    const number = known ?? this.#numbers.size + 1;
    if (number > maxNodes) {
      return 0;
    }
    this.#numbers.set(id, number);
    const { nodeId, nodeType } = ref;
    const json = [{ id, ...ref }, { id, nodeId, nodeType }, { id }]
      .map((each) => Buffer.from(JSON.stringify(each)))
      .find(({ length }) => length <= nodeBytes - 2);
    const start = headerBytes + (number - 1) * nodeBytes;
    const { length = 0 } = json ?? {};
    this.#bytes[start] = length & 0xff;
    this.#bytes[start + 1] = length >> 8;
    this.#bytes.set(json ?? [], start + 2);
    Atomics.store(this.#header, 2, this.#numbers.size);
    return number;
  }

  /** Adds the function nodes, whose code also runs without a message. */
  addFunctions(nodes: readonly FlowNode[], locator: NodeLocator): void {
    for (const { id } of nodes.filter(({ type }) => type === "function").slice(0, maxNodes)) {
      this.add(id, locator.locate(id));
    }
  }

  /** A node has received a message. */
  set(number: number): void {
    this.#header[0] = number;
  }

  /** The id of the node that has received a message last. */
  last(): string | undefined {
    const number = this.#header[0];
    return this.#numbers.entries().find(([, each]) => each === number)?.[0];
  }

  /** The event loop runs. */
  tick(): void {
    Atomics.add(this.#header, 1, 1);
  }
}
