import type { ChainedRevision, Operation } from "../test/linearizability/operation.ts";

/** Finds deployments that were answered as failed, and not with an unknown outcome, but are in the database. */
export function findStoredFailures(operations: readonly Operation[], chain: readonly ChainedRevision[]): string[] {
  const stored = new Set(chain.map(({ operation }) => operation));
  return operations.flatMap(({ id, outcome }) =>
    outcome.kind === "unknown" && stored.has(id) && !/outcome is unknown/.test(outcome.error)
      ? [`${id} is in the database, although it was answered: ${outcome.error}`]
      : [],
  );
}
