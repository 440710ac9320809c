import { nodeFields } from "../events/events.ts";
import { type NodeState, type NodeStates, hasErred } from "../events/node-states.ts";
import { createListeners } from "@flowgate/base/listeners";
import { LogLevel } from "../../gen/flowgate/v1/events_pb.ts";
import {
  describeFault,
  type DeploymentResult,
  type RevisionResult,
  type Runtime,
  type RuntimeState,
  isRunning,
  outcomeMessage,
} from "@flowgate/runtime";
import { resultOf, runnersOf } from "../replicas/runs.ts";
import type { DesiredStateStore } from "../store/desired-state.ts";
import type { FlowStore } from "../store/flow-store.ts";
import type { Condition, Health } from "../store/health.ts";
import type { RevisionOutcome } from "../store/revision.ts";
import type { Cluster, LostReplica } from "../store/cluster.ts";
import type { DiskSpace } from "../telemetry/own-usage.ts";
import {
  type Exit,
  type FailingNode,
  type FullDisk,
  combineHealth,
  foldHealth,
  isNearlyFull,
  restartedForMs,
} from "./health.ts";

type MonitorOptions = {
  readonly runtime: Pick<Runtime, "status" | "lastResult" | "onChange" | "onResult">;
  readonly nodes: Pick<NodeStates, "all" | "faults" | "setLastError" | "stop">;
  readonly store: Pick<FlowStore, "active">;
  readonly desired: Pick<DesiredStateStore, "current">;
  readonly cluster: Pick<Cluster, "replicas" | "lost"> | undefined;
  /** Reads the space of the data directory's file system; undefined if it does not report its size. */
  readonly disk: () => Promise<DiskSpace | undefined>;
  /** The exits that an earlier process of the service observed. */
  readonly earlierExits?: readonly Exit[];
  readonly now?: () => number;
};

/** The exits that are remembered: safe mode ends a crash loop before there are so many in an hour, unless the flows are deployed again and again. */
const maxExits = 1_000;

/** The time after which conditions of nodes are noticed, and that they have ended. */
const checkMs = 2_000;

/** The time after which a full disk is noticed. */
const diskMs = 10_000;

/** Collects the facts about the flows of this replica. Everything that shows how they are shows its `health`. */
export class HealthMonitor implements Disposable {
  readonly #options: MonitorOptions;
  readonly #now: () => number;
  readonly #subscriptions = new DisposableStack();
  readonly #changes = createListeners<void>();
  readonly #ends = createListeners<Exit>();
  #last = "";
  #fullDisk: FullDisk | undefined;
  #exits: Exit[] = [];
  /** The revision that ran when the process ended last; undefined once another process has started flows. */
  #endedRev: string | undefined;
  #state: RuntimeState;
  #stateSinceMs: number;

  constructor(options: MonitorOptions) {
    const { runtime, now = Date.now } = options;
    this.#options = options;
    this.#now = now;
    this.#exits = [...(options.earlierExits ?? [])];
    this.#state = runtime.status().state;
    this.#stateSinceMs = now();
    this.#subscriptions.use(
      runtime.onChange(() => {
        this.#observe();
        this.#check();
      }),
    );
    this.#subscriptions.use(runtime.onResult((result) => this.#endFaults(result)));
    const timer = setInterval(() => this.#check(), checkMs).unref();
    this.#subscriptions.defer(() => clearInterval(timer));
    const diskTimer = setInterval(() => void this.#readDisk(), diskMs).unref();
    this.#subscriptions.defer(() => clearInterval(diskTimer));
    void this.#readDisk();
    this.#last = this.#identify();
  }

  health(): Health {
    const own = this.own();
    const others = this.#options.cluster?.replicas().flatMap(({ isSelf, health }) => (isSelf ? [] : (health ?? [])));
    return others === undefined ? own : combineHealth([own, ...others]);
  }

  /** The health of the active revision, on all replicas that run flows, as its outcome; `pending` while that is not known. */
  outcome({ conditions } = this.health()): RevisionOutcome {
    const active = this.#options.store.active();
    const result = resultOf(active, this.#options);
    // Exits and errors of before are conditions of the flows still, but not of this revision.
    const worst = conditions.find(({ kind, lastMs }) => ofRevision.has(kind) && lastMs >= active.committedAtMs);
    // The result of a degraded start says more than the errors of single nodes.
    const isWorse = worst !== undefined && (result.outcome === "running" || worst.kind === "restarted");
    return isRunning(result) && isWorse
      ? { state: "degraded", message: describeWorst(worst), missingTypes: [] }
      : toOutcome(result);
  }

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
      lostReplicas: this.#findLost(),
      fullDisk: this.#fullDisk,
    });
  }

  /** Calls the listener when `own` has another state, or a condition has begun, ended or happened again. Disposing ends that. */
  onChange(listener: () => void): Disposable {
    return this.#changes.add(listener);
  }

  /** Calls the listener with each unexpected exit of the process. Disposing ends that. */
  onExit(listener: (exit: Exit) => void): Disposable {
    return this.#ends.add(listener);
  }

  [Symbol.dispose](): void {
    this.#subscriptions.dispose();
  }

  #check(): void {
    const next = this.#identify();
    if (next !== this.#last) {
      this.#last = next;
      this.#changes.notify();
    }
  }

  /** Differs whenever `onChange` is to be called. */
  #identify(): string {
    const { state, conditions } = this.own();
    // A node can log errors all the time.
    return JSON.stringify([
      state,
      ...conditions.map(({ kind, node, sinceMs, count }) =>
        kind === "nodes_failing" ? [kind, node?.subflowPath, node?.nodeId, sinceMs] : [kind, sinceMs, count],
      ),
    ]);
  }

  /** On one replica, so that they are not reported by each. */
  #findLost(): readonly LostReplica[] {
    const { cluster } = this.#options;
    return cluster !== undefined && runnersOf(cluster.replicas())[0]?.isSelf === true ? cluster.lost() : [];
  }

  async #readDisk(): Promise<void> {
    const space = await this.#options.disk();
    const { sinceMs = this.#now() } = this.#fullDisk ?? {};
    this.#fullDisk = space !== undefined && isNearlyFull(space) ? { ...space, sinceMs } : undefined;
  }

  /** The nodes at fault for an exit are void if the next process begins with another revision. Otherwise it reports when it stops them. */
  #endFaults({ revision: { rev }, result }: RevisionResult): void {
    const { nodes } = this.#options;
    if (this.#endedRev !== undefined && this.#endedRev !== rev) {
      nodes.faults().forEach(({ node }) => nodes.stop(node));
      this.#endedRev = undefined;
    } else if (isRunning(result)) {
      this.#endedRev = undefined;
    }
  }

  #observe(): void {
    const { runtime } = this.#options;
    const { state, reason, message, fault } = runtime.status();
    const nowMs = this.#now();
    if (state !== this.#state) {
      this.#state = state;
      this.#stateSinceMs = nowMs;
    }
    // A process ends once: the state changes again before the next one does.
    if (state === "restarting" && reason !== undefined && reason !== "safe_mode") {
      const recent = this.#exits.filter(({ atMs }) => nowMs - atMs < restartedForMs);
      const text = outcomeMessage({ message }) ?? "";
      const exit = { atMs: nowMs, reason, message: text, fault };
      this.#exits = [...recent, exit].slice(-maxExits);
      if (fault?.isCertain === true) {
        // What was known of it has ended with its process.
        const { node, line = 0, column = 0 } = fault;
        const level = LogLevel.FATAL;
        this.#options.nodes.setLastError(nodeFields(node), {
          level,
          message: text,
          stack: "",
          line,
          column,
          caught: false,
          truncated: false,
        });
      }
      this.#endedRev = runtime.lastResult()?.revision.rev;
      this.#ends.notify(exit);
    }
  }
}

export function toOutcome(result: DeploymentResult): RevisionOutcome {
  return { state: result.outcome, message: outcomeMessage(result), missingTypes: result.missingTypes };
}

/** The conditions that a revision can cause while it runs. */
const ofRevision: ReadonlySet<Condition["kind"]> = new Set(["restarted", "nodes_not_started", "nodes_failing"]);

/** Without the errors that flows throw, as `outcomeMessage`. */
function describeWorst({ kind, message, node, line }: Condition): string {
  switch (kind) {
    case "restarted":
      return `the runtime process ended: ${message}`;
    case "nodes_failing":
      return `nodes log errors${node === undefined ? "" : ` (${describeFault({ node, line, isCertain: true })})`}`;
    default:
      return message;
  }
}

function toFailingNode(state: NodeState): FailingNode[] {
  const { node, errors, lastError, lastErrorMs, failingSinceMs: sinceMs } = state;
  return lastError === undefined || lastErrorMs === undefined || sinceMs === undefined || !hasErred(state)
    ? []
    : [{ node, errors, sinceMs, lastErrorMs, message: lastError.message, line: lastError.line }];
}
