import type { CredentialSets, DeploymentType } from "../flows/configuration.ts";
import type { Revision } from "../store/store.ts";

/** A revision to be run, and those who wait for it. */
export type Deployment = {
  readonly revision: Revision;
  readonly type: DeploymentType;
  readonly waiters: Set<Waiter>;
};

export type Waiter = { settle(): void };

/** Constructing a function node costs about 0.4 ms: the rest is for slow machines and dear nodes. */
export function deploymentBudgetMs(revision: Revision, deadlineMs: number): number {
  return Math.max(deadlineMs, 1_000 + 5 * revision.flows.length);
}

export function createWaiter(deadlineMs: number): Waiter & { readonly settled: Promise<void> } {
  const { promise, resolve } = Promise.withResolvers<void>();
  const timer = setTimeout(resolve, deadlineMs);
  return {
    settled: promise,
    settle() {
      clearTimeout(timer);
      resolve();
    },
  };
}

export function settle(deployment: Deployment | undefined): void {
  for (const waiter of deployment?.waiters ?? []) waiter.settle();
}

/** Whether running the one leaves nothing to do for the other. */
export function covers(one: Omit<Deployment, "waiters">, other: Omit<Deployment, "waiters">): boolean {
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
