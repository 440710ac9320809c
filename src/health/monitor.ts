import type { NodeState, NodeStates } from "../live/node-states.ts";
import { type Redactor, redactNode } from "../live/redactor.ts";
import { LogLevel } from "../../gen/flowgate/v1/events_pb.ts";
import { type Runtime, type RuntimeState, outcomeMessage } from "../runtime/runtime.ts";
import type { DesiredStateStore } from "../store/desired-state.ts";
import type { FlowStore } from "../store/flow-store.ts";
import type { Health } from "../store/health.ts";
import type { Cluster } from "../store/cluster.ts";
import { type Exit, type FailingNode, combineHealth, foldHealth, restartedForMs } from "./health.ts";

type MonitorOptions = {
  readonly runtime: Pick<Runtime, "status" | "lastResult" | "onChange">;
  readonly nodes: Pick<NodeStates, "all">;
  readonly store: Pick<FlowStore, "active">;
  readonly desired: Pick<DesiredStateStore, "current">;
  /** Undefined: there are no other replicas. */
  readonly cluster: Pick<Cluster, "replicas"> | undefined;
  /** Removes the values of credentials from texts of flows. */
  readonly redactor: () => Redactor;
  readonly now?: () => number;
};

/** The exits that are remembered: safe mode ends a crash loop before there are so many in an hour, unless the flows are deployed again and again. */
const maxExits = 1_000;

/** The time after which the others read what has changed here besides the state of the runtime. */
const reportMs = 2_000;

/** Collects the facts about the flows of this replica. Everything that shows how they are shows its `health`. */
export class HealthMonitor implements Disposable {
  readonly #options: MonitorOptions;
  readonly #now: () => number;
  readonly #subscription: Disposable;
  #exits: Exit[] = [];
  #state: RuntimeState;
  #stateSinceMs: number;

  constructor(options: MonitorOptions) {
    const { runtime, now = Date.now } = options;
    this.#options = options;
    this.#now = now;
    this.#state = runtime.status().state;
    this.#stateSinceMs = now();
    this.#subscription = runtime.onChange(() => this.#observe());
  }

  /** The health of the flows, on all replicas that run them. */
  health(): Health {
    const own = this.own();
    const others = this.#options.cluster?.replicas().flatMap(({ isSelf, health }) => (isSelf ? [] : (health ?? [])));
    return others === undefined ? own : combineHealth([own, ...others]);
  }

  /** The health of the flows of this replica. */
  own(): Health {
    const { runtime, nodes, store, desired } = this.#options;
    const { state, message } = runtime.status();
    const last = runtime.lastResult();
    return foldHealth({
      nowMs: this.#now(),
      isStarted: desired.current().isStarted,
      state,
      stateSinceMs: this.#stateSinceMs,
      message: outcomeMessage({ message }),
      result: last?.revision.rev === store.active().rev ? last.result : undefined,
      exits: this.#exits,
      failing: nodes.all().flatMap((node) => toFailingNode(node)),
    });
  }

  /** The number of unexpected exits of the process since this time, of those within the last hour. */
  exitsSince(ms: number): number {
    return this.#exits.filter(({ atMs }) => atMs >= ms).length;
  }

  /** Calls the listener when conditions of this replica may have changed apart from a change of its runtime. Disposing ends that. */
  onChange(listener: () => void): Disposable {
    let last = "";
    const timer = setInterval(() => {
      const next = JSON.stringify(
        this.own().conditions.map(({ kind, node, sinceMs }) => [kind, node?.nodeId, sinceMs]),
      );
      if (next !== last) {
        last = next;
        listener();
      }
    }, reportMs).unref();
    return { [Symbol.dispose]: () => clearInterval(timer) };
  }

  [Symbol.dispose](): void {
    this.#subscription[Symbol.dispose]();
  }

  #observe(): void {
    const { state, reason, message, fault } = this.#options.runtime.status();
    const nowMs = this.#now();
    if (state !== this.#state) {
      this.#state = state;
      this.#stateSinceMs = nowMs;
    }
    // A process ends once: the state changes again before the next one does.
    if (state === "restarting" && reason !== undefined && reason !== "safe_mode") {
      const redactor = this.#options.redactor();
      const text = redactor.redact(outcomeMessage({ message }) ?? "", true);
      const recent = this.#exits.filter(({ atMs }) => nowMs - atMs < restartedForMs);
      this.#exits = [
        ...recent,
        {
          atMs: nowMs,
          reason,
          message: text,
          fault: fault && { ...fault, node: redactNode(redactor, fault.node) },
        },
      ].slice(-maxExits);
    }
  }
}

function toFailingNode({ node, errors, lastError, lastErrorMs }: NodeState): FailingNode[] {
  return lastError === undefined || lastErrorMs === undefined || lastError.level > LogLevel.ERROR
    ? []
    : [{ node, errors, lastErrorMs, message: lastError.message, line: lastError.line }];
}
