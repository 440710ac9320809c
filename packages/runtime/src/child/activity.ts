import type { FlowNode } from "@flowgate/flows";
import type { NodeRef } from "../node-events.ts";
import type { NodeLocator } from "./node-locator.ts";

/** Nodes that the watchdog can name, of the flows and those before them. */
export const maxNodes = 4_096;

/** The memory for a node: the length of its JSON, in two bytes, and JSON. */
export const nodeBytes = 512;

/**
 * The number of the last active node, that of ticks, and that of places for nodes that were used. Numbers of nodes begin with 1. A place that is
 * used again has another number, which is greater by `maxNodes`: the watchdog finds out that another node is active.
 */
export const headerBytes = 16;

/** State that the threads of this process share: which node has received a message last, and whether the event loop runs. */
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
  /** Numbers for new nodes, in places that are free again. */
  readonly #free: number[] = [];
  #places = 0;

  /** Returns the number of a node; 0 if there are too many. */
  add(id: string, ref: NodeRef): number {
    const number = this.#numbers.get(id) ?? this.#free.pop() ?? this.#newPlace();
    if (number === 0) {
      return 0;
    }
    this.#numbers.set(id, number);
    const { nodeId, nodeType } = ref;
    const json = [{ id, ...ref }, { id, nodeId, nodeType }, { id }]
      .map((each) => Buffer.from(JSON.stringify(each)))
      .find(({ length }) => length <= nodeBytes - 2);
    const start = startOf(number);
    const { length = 0 } = json ?? {};
    this.#bytes[start] = length & 0xff;
    this.#bytes[start + 1] = length >> 8;
    this.#bytes.set(json ?? [], start + 2);
    Atomics.store(this.#header, 2, this.#places);
    return number;
  }

  #newPlace(): number {
    return this.#places < maxNodes ? (this.#places += 1) : 0;
  }

  /**
   * These flows are about to start. Adds the function nodes, whose code also runs without a message, and removes the nodes that neither the
   * flows nor those before, which are to be stopped, have.
   */
  replace(nodes: readonly FlowNode[], locator: NodeLocator): void {
    for (const [id, number] of this.#numbers) {
      if (locator.locate(id).nodeType === undefined) {
        this.#numbers.delete(id);
        this.#bytes.fill(0, startOf(number), startOf(number) + nodeBytes);
        this.#free.push(number + maxNodes);
      }
    }
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

function startOf(number: number): number {
  return headerBytes + ((number - 1) % maxNodes) * nodeBytes;
}
