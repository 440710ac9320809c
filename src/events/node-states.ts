import { LogLevel } from "../../gen/flowgate/v1/events_pb.ts";
import { type NodeCounts, type NodeRef, cutText } from "@flowgate/runtime";
import { BoundedMap } from "./bounded-map.ts";
import { charsOfNode } from "./events.ts";

type Status = { readonly text: string; readonly fill: string; readonly shape: string };

type LastError = {
  readonly level: LogLevel;
  readonly message: string;
  readonly stack: string;
  readonly line: number;
  readonly column: number;
  readonly caught: boolean;
  readonly truncated: boolean;
};

export type NodeState = {
  readonly node: NodeRef;
  readonly status: Status | undefined;
  readonly messages: number;
  readonly errors: number;
  readonly warnings: number;
  /** In Unix time; undefined if it has received no message. */
  readonly lastMessageMs: number | undefined;
  readonly lastError: LastError | undefined;
  readonly lastErrorMs: number | undefined;
  /** The first of the errors that were not more than `failingForMs` apart. */
  readonly failingSinceMs: number | undefined;
};

/** A node is failing for this time after its last error. */
const failingForMs = 10 * 60_000;

export function isRecentError(lastErrorMs: number, nowMs: number): boolean {
  return nowMs - lastErrorMs < failingForMs;
}

/** True if its `lastError` is an error, not a warning. */
export function hasErred({ lastError }: NodeState): boolean {
  return lastError !== undefined && lastError.level <= LogLevel.ERROR;
}

export function isFailing(state: NodeState, nowMs = Date.now()): boolean {
  return hasErred(state) && isRecentError(state.lastErrorMs ?? 0, nowMs);
}

/** Neither more nodes are remembered, nor more of their texts: flows can make them up. */
const maxNodes = 20_000;
const maxBytes = 8 * 1024 * 1024;

/** The characters that are remembered of a message, and of a stack. */
const maxErrorChars = 1_000;

/** Identifies a node with its place in subflow instances. */
export function keyOfNode({ nodeId, subflowPath = [] }: NodeRef): string {
  return [...subflowPath, nodeId].join("/");
}

/** Remembers the nodes of the runtime process that have a status, have logged errors or warnings, or have received messages. */
export class NodeStates {
  readonly #states = new BoundedMap<NodeState>({ maxEntries: maxNodes, maxBytes, charsOf: charsOfState });

  /** The nodes in the order in which something has happened to them first. */
  all(): readonly NodeState[] {
    return [...this.#states.values()];
  }

  hasStatus(node: NodeRef): boolean {
    return this.#states.get(keyOfNode(node))?.status !== undefined;
  }

  /** Returns the nodes that ended a process. */
  faults(): readonly NodeState[] {
    return this.all().filter(({ lastError }) => lastError?.level === LogLevel.FATAL);
  }

  countFailing(): number {
    return this.#states.values().reduce((count, state) => count + (isFailing(state) ? 1 : 0), 0);
  }

  /** Returns whether that changes anything; undefined if the node can't be remembered. */
  setStatus(node: NodeRef, status: Status): boolean | undefined {
    const isCleared = status.text === "" && status.fill === "" && status.shape === "";
    const key = keyOfNode(node);
    const before = this.#states.get(key)?.status;
    if (isCleared && before === undefined) {
      return false;
    }
    return this.#update(node, { status: isCleared ? undefined : status }) ? true : undefined;
  }

  setCounts(node: NodeRef, { messages, errors, warnings, lastMessageMs }: NodeCounts): void {
    this.#update(node, { messages, errors, warnings, lastMessageMs });
  }

  /** A warning does not replace an error. */
  setLastError(node: NodeRef, { level, message, stack, line, column, caught, truncated }: LastError): void {
    const before = this.#states.get(keyOfNode(node));
    if (level === LogLevel.WARN && before?.lastError !== undefined && before.lastError.level < LogLevel.WARN) {
      return;
    }
    const nowMs = Date.now();
    this.#update(node, {
      lastError: {
        level,
        message: cutText(message, maxErrorChars),
        stack: cutText(stack, maxErrorChars),
        line,
        column,
        caught,
        truncated: truncated || message.length > maxErrorChars || stack.length > maxErrorChars,
      },
      lastErrorMs: nowMs,
      failingSinceMs: before !== undefined && isFailing(before, nowMs) ? before.failingSinceMs : nowMs,
    });
  }

  /** The node was stopped. Its status remains, as it does in the editor. */
  stop(node: NodeRef): void {
    const before = this.#states.get(keyOfNode(node));
    if (before !== undefined) {
      this.#update(node, { ...unknown, status: before.status });
    }
  }

  clear(): void {
    this.#states.clear();
  }

  /** Returns whether the node is remembered, or nothing is left to remember. */
  #update(node: NodeRef, change: Partial<NodeState>): boolean {
    const key = keyOfNode(node);
    const before = this.#states.get(key);
    const state = { ...unknown, ...before, ...change, node };
    const { status, messages, errors, warnings, lastError } = state;
    if (status === undefined && messages + errors + warnings === 0 && lastError === undefined) {
      this.#states.delete(key);
      return true;
    }
    return this.#states.set(key, state);
  }
}

const unknown: Omit<NodeState, "node"> = {
  status: undefined,
  messages: 0,
  errors: 0,
  warnings: 0,
  lastMessageMs: undefined,
  lastError: undefined,
  lastErrorMs: undefined,
  failingSinceMs: undefined,
};

function charsOfState({ node, status, lastError }: NodeState): number {
  const texts = [status?.text, status?.fill, status?.shape, lastError?.message, lastError?.stack];
  return texts.reduce((sum, text = "") => sum + text.length, charsOfNode(node));
}
