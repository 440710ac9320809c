import { type Context, ROOT_CONTEXT } from "@opentelemetry/api";
import { type CredentialSets, type DeploymentType, type CredentialSet, changedCredentials } from "@flowgate/flows";
import type { Revision } from "./revision.ts";
import { formatTraceparent } from "@flowgate/base/spans";
import type { Deploy, FlowsDeployed } from "./messages.ts";
import type { CompleteOptions } from "./options.ts";
import { type DeploymentResult, type WaitOptions, pending, running } from "./runtime.ts";
import { nameOptions } from "./sandbox.ts";

/** A revision to apply, and the callers that wait for the result. */
export type Deployment = {
  readonly revision: Revision;
  readonly type: DeploymentType;
  readonly waiters: Set<Waiter>;
  /** The parent of its spans. */
  readonly trace: Context;
};

type RevisionAndType = Pick<Deployment, "revision" | "type">;

export type Waiter = { resolve(result: DeploymentResult): void };

/** Constructing a function node takes about 0.4 ms; 5 ms per node leave room for slow machines and expensive nodes. */
export function deploymentBudgetMs(revision: Revision, deadlineMs: number): number {
  return Math.max(deadlineMs, 1_000 + 5 * revision.flows.count);
}

/** How long the caller of a deployment waits at most: until flows that do not start in time have failed. */
export function deploymentWaitMs(revision: Revision, deadlineMs: number): number {
  return deploymentBudgetMs(revision, deadlineMs) + processMs;
}

/** As a rule, longer than it takes a process to start before the flows, and to end when it is killed. */
const processMs = 2_000;

/** Creates a waiter whose result is `pending` when the time is over or the signal is aborted. */
export function createWaiter(
  deadlineMs: number,
  { withinMs = deadlineMs, signal }: WaitOptions = {},
): Waiter & { readonly result: Promise<DeploymentResult> } {
  const { promise, resolve } = Promise.withResolvers<DeploymentResult>();
  const finish = (result: DeploymentResult): void => {
    clearTimeout(timer);
    signal?.removeEventListener("abort", giveUp);
    resolve(result);
  };
  const giveUp = (): void => finish(pending);
  const timer = setTimeout(giveUp, Math.min(deadlineMs, withinMs));
  signal?.addEventListener("abort", giveUp);
  if (signal?.aborted === true) {
    giveUp();
  }
  return { result: promise, resolve: finish };
}

export function resolveWaiters(deployment: Deployment | undefined, result: DeploymentResult): void {
  for (const waiter of deployment?.waiters ?? []) {
    waiter.resolve(result);
  }
}

/** True if applying `current` makes applying `requested` unnecessary. */
export function includesDeployment(current: RevisionAndType, requested: RevisionAndType): boolean {
  if (current.revision.seq < requested.revision.seq || requested.type === "reload") {
    return false;
  }
  return requested.type !== "full" || restartsAllNodes(current);
}

export function restartsAllNodes({ type }: Pick<Deployment, "type">): boolean {
  return type === "full" || type === "reload";
}

/** Returns one deployment that replaces both. They may be in any order: the newer revision is applied. */
function mergeDeployments(one: Deployment | undefined, other: Deployment): Deployment {
  if (one === undefined) {
    return other;
  }
  return {
    revision: newerRevision(one.revision, other.revision),
    type: mergeTypes(one.type, other.type),
    waiters: new Set([...one.waiters, ...other.waiters]),
    trace: one.revision.seq > other.revision.seq || other.trace === ROOT_CONTEXT ? one.trace : other.trace,
  };
}

function mergeTypes(one: DeploymentType, other: DeploymentType): DeploymentType {
  if (one === other) {
    return one;
  }
  const types = new Set([one, other]);
  // A reload merged with changed flows is a full deployment.
  return types.has("full") || types.has("reload") ? "full" : "flows";
}

function newerRevision(one: Revision | undefined, other: Revision): Revision {
  return one !== undefined && one.seq > other.seq ? one : other;
}

/** The message to the child, with these credentials. `previous` are those that it has. */
export function deployMessage(
  id: number,
  { type }: Pick<Deployment, "type">,
  { credentials, previous }: { readonly credentials: CredentialSets; readonly previous: CredentialSets },
  reportsStops: boolean,
  trace: Context,
): Deploy {
  const traceparent = formatTraceparent(trace);
  return {
    kind: "deploy",
    id,
    type,
    credentials: [...credentials].map(([nodeId, set]) => [nodeId, [...set]] as const),
    credentialsChanged: [...changedCredentials(previous, credentials)],
    reportsStops,
    ...(traceparent !== undefined && { traceparent }),
  };
}

/** The newest known revision, and the next deployment: those that are added while another one is in progress are merged. */
export class DeploymentQueue {
  #newest: Revision | undefined;
  #next: Deployment | undefined;

  get newest(): Revision | undefined {
    return this.#newest;
  }

  get next(): Deployment | undefined {
    return this.#next;
  }

  /** Records a revision, and returns the newest one. */
  record(revision: Revision): Revision {
    this.#newest = newerRevision(this.#newest, revision);
    return this.#newest;
  }

  /** Records the active revision. A failure to read it is logged. */
  async recordActive({ active, log }: Pick<CompleteOptions, "active" | "log">): Promise<void> {
    try {
      this.record(await active());
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      log({ level: "error", message: `the active revision could not be read: ${reason}` }, "runtime");
    }
  }

  add(deployment: Deployment): void {
    this.record(deployment.revision);
    this.#next = mergeDeployments(this.#next, deployment);
  }

  /** Removes and returns the next deployment, of the newest revision. */
  take(): Deployment | undefined {
    const next = this.#next && { ...this.#next, revision: this.record(this.#next.revision) };
    this.#next = undefined;
    return next;
  }
}

/** The deployments that one process has finished, whether or not its flows could be started. */
export class AppliedDeployments {
  #lastRevision: Revision | undefined;
  #credentials: CredentialSets = new Map();
  /** The sequence number of the newest revision with which all nodes were restarted. */
  #fullSeq = -1;
  #sinceMs: number | undefined;

  get lastRevision(): Revision | undefined {
    return this.#lastRevision;
  }

  /** Those that the process has. */
  get credentials(): CredentialSets {
    return this.#credentials;
  }

  /** The time since the first of them. */
  get ranMs(): number {
    return this.#sinceMs === undefined ? 0 : performance.now() - this.#sinceMs;
  }

  /** A node has replaced its credentials in the process. */
  hold(nodeId: string, set: NonNullable<CredentialSet>): void {
    this.#credentials = new Map(this.#credentials).set(nodeId, set);
  }

  /** `credentials` are those that the process has got. */
  record(deployment: Deployment, credentials: CredentialSets, isRejected: boolean): void {
    const { revision } = deployment;
    this.#sinceMs ??= performance.now();
    this.#lastRevision = revision;
    if (isRejected) {
      return;
    }
    this.#credentials = credentials;
    if (restartsAllNodes(deployment)) {
      this.#fullSeq = revision.seq;
    }
  }

  /** True if they make this one unnecessary. */
  includes({ revision, type }: RevisionAndType): boolean {
    if (this.#lastRevision === undefined || this.#lastRevision.seq < revision.seq || type === "reload") {
      return false;
    }
    return type !== "full" || this.#fullSeq >= revision.seq;
  }
}

/** The result of a deployment, as its process has reported it. */
export function toResult({
  failure,
  failedNodes = [],
  notStarted,
  missingTypes = [],
  lacksModules,
}: FlowsDeployed): DeploymentResult {
  if (failure !== undefined) {
    return { outcome: "failed", missingTypes, lacksModules, message: nameOptions(failure) };
  }
  const problems = [
    ...(notStarted === undefined ? [] : [notStarted]),
    ...(failedNodes.length === 0 ? [] : [`nodes logged errors while they were started: ${failedNodes.join(", ")}`]),
  ];
  return problems.length === 0 ? running : { outcome: "degraded", missingTypes: [], message: problems.join("; ") };
}
