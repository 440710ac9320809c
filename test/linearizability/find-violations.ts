import { type ChainedRevision, observedBy, type Operation } from "./operation.ts";

/**
 * Checks that the operations can be explained by one register, whose values are the revisions in the order of the chain. Its
 * first revision was active before all operations.
 *
 * - Deployments are linearizable: each one takes effect at one moment between its begin and its end, in the order of the chain.
 *   A compare-and-swap replaces the revision that it expects, or observes another one that is active at such a moment.
 * - Reads return what exists when they end, nothing older than the revision that they name, and nothing older than what the
 *   client has observed before.
 *
 * Returns a description of each violation. Takes time proportional to n log n.
 */
export function findViolations(operations: readonly Operation[], chain: readonly ChainedRevision[]): string[] {
  const run = index(operations, chain);
  return [
    ...checkChain(chain, run),
    ...operations.flatMap((operation) => checkOutcome(operation, run)),
    ...checkOrder(chain, run),
    ...checkSessions(operations, run),
  ];
}

type Run = {
  readonly operations: ReadonlyMap<string, Operation>;
  /** Places in the chain, by revision. */
  readonly places: ReadonlyMap<string, number>;
  readonly revisions: ReadonlyMap<string, ChainedRevision>;
  /** The revisions of operations. */
  readonly committed: ReadonlyMap<string, ChainedRevision>;
  /** The operations that have returned a revision which they did not make. */
  readonly observers: ReadonlyMap<string, readonly Operation[]>;
};

function index(operations: readonly Operation[], chain: readonly ChainedRevision[]): Run {
  return {
    operations: new Map(operations.map((operation) => [operation.id, operation])),
    places: new Map(chain.map(({ rev }, place) => [rev, place])),
    revisions: new Map(chain.map((revision) => [revision.rev, revision])),
    committed: new Map(chain.slice(1).map((revision) => [revision.operation ?? "", revision])),
    observers: Map.groupBy(
      operations.filter(({ outcome }) => outcome.kind === "mismatch" || outcome.kind === "read"),
      ({ outcome }) => observedBy(outcome) ?? "",
    ),
  };
}

/** Each revision replaces the one before it, and was deployed by one operation. */
function checkChain(chain: readonly ChainedRevision[], { operations, committed }: Run): string[] {
  return chain.slice(1).flatMap(({ rev, parent, operation }, index) => {
    const before = chain[index]?.rev;
    return [
      ...(parent === before ? [] : [`revision ${rev} follows ${before}, but its parent is ${parent}`]),
      ...(operations.get(operation ?? "")?.kind === "deployment" ? [] : [`nobody has deployed revision ${rev}`]),
      ...(committed.get(operation ?? "")?.rev === rev ? [] : [`${operation} has made more than one revision`]),
    ];
  });
}

function checkOutcome(operation: Operation, { revisions, committed }: Run): string[] {
  const { id, outcome } = operation;
  const rev = observedBy(operation.outcome);
  const returned = revisions.get(rev ?? "");
  if (rev !== undefined && returned === undefined) {
    return [`${id} has returned revision ${rev}, which does not exist`];
  }
  if (operation.kind === "read") {
    return outcome.kind === "read" && outcome.flowsOf !== (returned?.operation ?? undefined)
      ? [`${id} has returned revision ${rev} with the flows of ${outcome.flowsOf}`]
      : [];
  }
  const { expected } = operation;
  const made = committed.get(id);
  if (outcome.kind === "mismatch") {
    return [
      ...(rev === expected ? [`${id} was rejected, although revision ${rev} was active as expected`] : []),
      ...(expected === undefined ? [`${id} was rejected, although it was forced`] : []),
      ...(made === undefined ? [] : [`${id} was rejected, but has made revision ${made.rev}`]),
    ];
  }
  return [
    ...(outcome.kind === "committed" && made !== returned ? [`${id} has not made revision ${rev}`] : []),
    ...(made !== undefined && expected !== undefined && made.parent !== expected
      ? [`${id} has replaced revision ${made.parent}, but expected ${expected}`]
      : []),
  ];
}

/**
 * Lets each operation take effect as early as its begin and the operations before it in the chain permit. If one then takes
 * effect after its end, no other choice of moments is possible.
 */
function checkOrder(chain: readonly ChainedRevision[], { operations, observers }: Run): string[] {
  let latest: { readonly ms: number; readonly id: string } = { ms: Number.NEGATIVE_INFINITY, id: "" };
  const begin = ({ beginMs, id }: Operation): void => {
    latest = beginMs > latest.ms ? { ms: beginMs, id } : latest;
  };
  const endsTooEarly = ({ endMs, outcome }: Operation): boolean => outcome.kind !== "unknown" && endMs < latest.ms;

  return chain.flatMap(({ rev, operation }) => {
    const violations: string[] = [];
    const deployment = operations.get(operation ?? "");
    if (deployment !== undefined) {
      begin(deployment);
      if (endsTooEarly(deployment)) {
        violations.push(`${deployment.id} ended before ${latest.id} began, but comes after it`);
      }
    }
    const observing = observers.get(rev) ?? [];
    for (const { id } of observing.filter(endsTooEarly)) {
      violations.push(`${id} ended before ${latest.id} began, but has observed revision ${rev}, which comes after it`);
    }
    // A read may return a revision that is no longer active.
    observing.filter(({ kind }) => kind === "deployment").forEach(begin);
    return violations;
  });
}

function checkSessions(operations: readonly Operation[], { places }: Run): string[] {
  /** The newest revision that each client has observed. */
  const newest = new Map<string, { readonly place: number; readonly id: string }>();
  return operations
    .toSorted((one, other) => one.beginMs - other.beginMs)
    .flatMap((operation) => {
      const { id, client, kind } = operation;
      const rev = observedBy(operation.outcome) ?? "";
      const place = places.get(rev);
      if (place === undefined) {
        return [];
      }
      const before = newest.get(client) ?? { place: 0, id: "" };
      if (place >= before.place) {
        newest.set(client, { place, id });
      }
      if (kind !== "read") {
        return [];
      }
      const { known } = operation;
      return [
        ...(place < (places.get(known) ?? 0)
          ? [`${id} has returned revision ${rev}, which is older than ${known}`]
          : []),
        ...(place < before.place ? [`${id} has returned revision ${rev}, but ${before.id} a newer one`] : []),
      ];
    });
}
