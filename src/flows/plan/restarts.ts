import { Budget } from "../budget.ts";
import type { Configuration, DeploymentType } from "../configuration.ts";
import { diffCredentialNames, hasCredentialNames } from "../diff/credential-names.ts";
import { countRunning } from "./count-running.ts";
import { findMissingTypes } from "./missing-types.ts";
import { findModified, type ModifiedNodes } from "./modified-nodes.ts";
import { parseForRuntime } from "./runtime-flows.ts";
import { type RunningNode, startAll, startFlows, stopFlows } from "./running-flows.ts";

/** The nodes that a deployment stops and starts, in this order. A node in both lists restarts. */
export type Restarts = { readonly stops: readonly RunningNode[]; readonly starts: readonly RunningNode[] };

/**
 * Predicts which nodes the runtime stops and starts. It runs `current` as a full deployment has left it: not if a type is
 * missing. `knownTypes` are the installed types, if they are known. A node whose own code fails does not run, which is not
 * predicted. `reload` restarts all nodes of `next`, as `full` does. Throws `limit_exceeded` if too many nodes run.
 */
export function findRestarts(
  current: Configuration,
  next: Configuration,
  type: DeploymentType,
  knownTypes?: ReadonlySet<string>,
  budget: Budget = new Budget(),
): Restarts {
  const [before, after] = [parseForRuntime(current.flows), parseForRuntime(next.flows)];
  budget.checkRunning(countRunning(before));
  budget.checkRunning(countRunning(after));
  const canStart = ({ flows }: Configuration): boolean => findMissingTypes(flows, knownTypes).length === 0;
  const running = canStart(current) ? startAll(before, () => {}) : new Map();
  const isPartial = type === "nodes" || type === "flows";
  const modified = findModified(before, after, isPartial ? changedCredentials(current, next) : new Set());

  const stops: RunningNode[] = [];
  const starts: RunningNode[] = [];
  stopFlows(running, isPartial && !modified.isGlobal ? idsToStop(modified, type) : undefined, modified, (node) =>
    stops.push(node),
  );
  if (canStart(next)) {
    startFlows(running, after, modified.rewired, (node) => starts.push(node));
  }
  return { stops, starts };
}

function idsToStop({ changed, removed, linked, rewired }: ModifiedNodes, type: "nodes" | "flows"): ReadonlySet<string> {
  const ids = changed.union(removed);
  return type === "nodes" ? ids : ids.union(linked).union(rewired);
}

function changedCredentials(current: Configuration, next: Configuration): ReadonlySet<string> {
  const ids = new Set([...current.credentials.keys(), ...next.credentials.keys()]);
  return new Set(
    [...ids].filter((id) =>
      hasCredentialNames(diffCredentialNames(current.credentials.get(id), next.credentials.get(id))),
    ),
  );
}
