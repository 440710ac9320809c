import { isRecentError } from "../events/node-states.ts";
import { type NodeRef, cutText, type Fault, type DeploymentResult, type RuntimeState } from "@flowgate/runtime";
import type { LostReplica } from "../store/cluster.ts";
import type { DiskSpace } from "../telemetry/own-usage.ts";
import { type Condition, type ExitReason, type Health, type HealthState, conditionKinds } from "../store/health.ts";

export type Exit = {
  readonly atMs: number;
  readonly reason: ExitReason;
  readonly message: string;
  readonly fault: Fault | undefined;
};

export type FailingNode = {
  readonly node: NodeRef;
  readonly errors: number;
  readonly sinceMs: number;
  readonly lastErrorMs: number;
  readonly message: string;
  readonly line: number;
};

export type HealthFacts = {
  readonly nowMs: number;
  readonly isStarted: boolean;
  readonly state: RuntimeState;
  /** Since when the runtime is in this state. */
  readonly stateSinceMs: number;
  readonly message: string | undefined;
  /** The result of the active revision; undefined while it is not known. */
  readonly result: DeploymentResult | undefined;
  readonly exits: readonly Exit[];
  readonly failing: readonly FailingNode[];
  readonly lostReplicas: readonly LostReplica[];
  /** The file system of the data directory; undefined unless it is nearly full. */
  readonly fullDisk: FullDisk | undefined;
};

/** `sinceMs`: when it was found to be so full first. */
export type FullDisk = DiskSpace & { readonly sinceMs: number };

/** A condition `restarted` holds for this time after the last exit. */
export const restartedForMs = 60 * 60_000;

/** The maximum number of listed failing nodes, latest errors first. */
const maxFailingNodes = 20;

/** The characters of a message. */
const maxMessageChars = 300;

export function foldHealth(facts: HealthFacts): Health {
  if (!facts.isStarted) {
    return { state: "stopped", conditions: [] };
  }
  const conditions = [blocking, restarted, lost, full, failing]
    .flatMap((find) => find(facts))
    .map((condition) => ({ ...condition, message: cutText(condition.message, maxMessageChars) }));
  return { state: stateOf(facts, conditions.length > 0), conditions };
}

/** The health of several replicas: the worst state of the replicas that run flows, and the conditions of all. */
export function combineHealth(replicas: readonly Health[]): Health {
  const runners = replicas.filter(({ conditions }) => !conditions.some(({ kind }) => kind === "no_runner"));
  const running = runners.length === 0 ? replicas : runners;
  const states: readonly HealthState[] = ["failed", "starting", "degraded", "healthy", "stopped"];
  const state = states.find((each) => running.some((health) => health.state === each)) ?? "starting";
  const conditions = new Map<string, Condition>();
  for (const condition of running.flatMap((health) => health.conditions)) {
    const { kind, node } = condition;
    const key = [kind, ...(node?.subflowPath ?? []), node?.nodeId ?? ""].join("\n");
    const known = conditions.get(key);
    conditions.set(key, known === undefined ? condition : merge(known, condition));
  }
  return { state, conditions: [...conditions.values()].toSorted(bySeverity) };
}

function merge(one: Condition, other: Condition): Condition {
  const newer = one.lastMs >= other.lastMs ? one : other;
  return { ...newer, sinceMs: Math.min(one.sinceMs, other.sinceMs), count: one.count + other.count };
}

function bySeverity(one: Condition, other: Condition): number {
  return conditionKinds.indexOf(one.kind) - conditionKinds.indexOf(other.kind) || other.lastMs - one.lastMs;
}

function stateOf({ state }: HealthFacts, hasConditions: boolean): HealthState {
  switch (state) {
    case "running":
      return hasConditions ? "degraded" : "healthy";
    case "starting":
    case "restarting":
      return "starting";
    case "stopped":
      return "stopped";
    default:
      return "failed";
  }
}

function blocking({ state, stateSinceMs, nowMs, message = "", result }: HealthFacts): Condition[] {
  const condition = (kind: Condition["kind"], text = message): Condition[] => [
    { kind, sinceMs: stateSinceMs, lastMs: nowMs, count: 1, message: text },
  ];
  switch (state) {
    case "safe":
      return condition("safe_mode");
    case "standby":
    case "disabled":
      return condition("no_runner", "no replica runs the flows");
    case "failed":
      if (result !== undefined && result.missingTypes.length > 0) {
        return condition("missing_types", `these node types are not installed: ${result.missingTypes.join(", ")}`);
      }
      return condition(result?.lacksModules === true ? "missing_modules" : "not_started");
    case "running":
      // Later errors are conditions of their nodes.
      return result?.outcome === "degraded" && result.isLate !== true
        ? condition("nodes_not_started", result.message)
        : [];
    default:
      return [];
  }
}

function restarted({ exits, nowMs }: HealthFacts): Condition[] {
  const recent = exits.filter(({ atMs }) => nowMs - atMs < restartedForMs);
  const [first, last] = [recent[0], recent.at(-1)];
  if (first === undefined || last === undefined) {
    return [];
  }
  const { atMs: lastMs, reason, message, fault } = last;
  return [
    {
      kind: "restarted",
      sinceMs: first.atMs,
      lastMs,
      count: recent.length,
      message,
      reason,
      ...(fault !== undefined && { node: fault.node, line: fault.line }),
    },
  ];
}

function lost({ lostReplicas }: HealthFacts): Condition[] {
  const [first] = lostReplicas.toSorted((one, other) => one.lastMs - other.lastMs);
  if (first === undefined) {
    return [];
  }
  const names = lostReplicas.map(({ name }) => name).toSorted();
  return [
    {
      kind: "replica_lost",
      sinceMs: first.lastMs,
      lastMs: Math.max(...lostReplicas.map(({ lastMs }) => lastMs)),
      count: names.length,
      message: `these replicas have not been heard of, and have not ended by themselves: ${names.join(", ")}`,
    },
  ];
}

function full({ fullDisk, nowMs }: HealthFacts): Condition[] {
  if (fullDisk === undefined) {
    return [];
  }
  const { sinceMs, freeBytes, totalBytes } = fullDisk;
  const [free, total] = [freeBytes, totalBytes].map((bytes) => Math.floor(bytes / 1024 ** 2));
  const message = `${free} of ${total} MiB are free on the file system of the data directory`;
  return [{ kind: "disk", sinceMs, lastMs: nowMs, count: 1, message }];
}

const gib = 1024 ** 3;

/** True if less than 5 % are free, and less than 1 GiB. */
export function isNearlyFull({ freeBytes, totalBytes }: DiskSpace): boolean {
  return freeBytes < Math.min(gib, totalBytes / 20);
}

function failing({ failing: nodes, nowMs }: HealthFacts): Condition[] {
  return nodes
    .filter(({ lastErrorMs }) => isRecentError(lastErrorMs, nowMs))
    .toSorted((one, other) => other.lastErrorMs - one.lastErrorMs)
    .slice(0, maxFailingNodes)
    .map(({ node, errors, sinceMs, lastErrorMs, message, line }) => ({
      kind: "nodes_failing",
      sinceMs,
      lastMs: lastErrorMs,
      count: Math.max(1, errors),
      message,
      node,
      ...(line > 0 && { line }),
    }));
}
