import { type Context, ROOT_CONTEXT } from "@opentelemetry/api";
import type { CredentialSets, DeploymentType } from "../flows/configuration.ts";
import type { Revision } from "../store/store.ts";
import type { DeploymentResult, WaitOptions } from "./runtime.ts";

/** A revision to be run, and those who wait for it. */
export type Deployment = {
  readonly revision: Revision;
  readonly type: DeploymentType;
  readonly waiters: Set<Waiter>;
  /** Where it belongs. */
  readonly trace: Context;
};

type Task = Pick<Deployment, "revision" | "type">;

export type Waiter = { settle(result: DeploymentResult): void };

export const running: DeploymentResult = { outcome: "running", missingTypes: [] };
export const crashed: DeploymentResult = { outcome: "crashed", missingTypes: [] };
export const pending: DeploymentResult = { outcome: "pending", missingTypes: [] };

/** Constructing a function node takes about 0.4 ms; 5 ms allow for slow machines and expensive nodes. */
export function deploymentBudgetMs(revision: Revision, deadlineMs: number): number {
  return Math.max(deadlineMs, 1_000 + 5 * revision.flows.count);
}

export function createWaiter(
  deadlineMs: number,
  { withinMs = deadlineMs, signal }: WaitOptions = {},
): Waiter & { readonly settled: Promise<DeploymentResult> } {
  const { promise, resolve } = Promise.withResolvers<DeploymentResult>();
  const settle = (result: DeploymentResult): void => {
    clearTimeout(timer);
    signal?.removeEventListener("abort", leave);
    resolve(result);
  };
  const leave = (): void => settle(pending);
  const timer = setTimeout(leave, Math.min(deadlineMs, withinMs));
  signal?.addEventListener("abort", leave);
  if (signal?.aborted === true) leave();
  return { settled: promise, settle };
}

export function settle(deployment: Deployment | undefined, result: DeploymentResult): void {
  for (const waiter of deployment?.waiters ?? []) waiter.settle(result);
}

/** Whether running the one leaves nothing to do for the other. */
export function covers(one: Task, other: Task): boolean {
  if (one.revision.seq < other.revision.seq || other.type === "reload") return false;
  return other.type !== "full" || isFull(one);
}

/** Whether it starts every node anew. */
export function isFull({ type }: Pick<Deployment, "type">): boolean {
  return type === "full" || type === "reload";
}

/** One deployment that does for both. They may come in any order: the newer revision is the one that counts. */
export function mergeDeployments(one: Deployment | undefined, other: Deployment): Deployment {
  if (one === undefined) return other;
  return {
    revision: newer(one.revision, other.revision),
    type: mergeTypes(one.type, other.type),
    waiters: new Set([...one.waiters, ...other.waiters]),
    trace: one.revision.seq > other.revision.seq || other.trace === ROOT_CONTEXT ? one.trace : other.trace,
  };
}

function mergeTypes(one: DeploymentType, other: DeploymentType): DeploymentType {
  if (one === other) return one;
  const types = new Set([one, other]);
  // A reload besides something new is a full deployment.
  return types.has("full") || types.has("reload") ? "full" : "flows";
}

export function newer(one: Revision | undefined, other: Revision): Revision {
  return one !== undefined && one.seq > other.seq ? one : other;
}

/** The nodes whose credentials are not the same in both, removed ones included. */
export function changedCredentials(before: CredentialSets, after: CredentialSets): string[] {
  if (before === after) return [];
  const ids = new Set([...before.keys(), ...after.keys()]);
  return [...ids].filter((id) => !isSameSet(before.get(id), after.get(id)));
}

type CredentialSet = ReadonlyMap<string, string>;

function isSameSet(one: CredentialSet = new Map(), other: CredentialSet = new Map()): boolean {
  return one.size === other.size && [...one].every(([name, value]) => other.get(name) === value);
}
