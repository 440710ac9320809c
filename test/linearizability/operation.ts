/** A call as its client observed it. Times are of the monotonic clock that all processes of a machine share. */
export type Operation = {
  /** Unique. A deployment carries it in its message and its flows. */
  readonly id: string;
  /** Makes one call at a time. */
  readonly client: string;
  readonly beginMs: number;
  readonly endMs: number;
} & (DeploymentOperation | ReadOperation);

type DeploymentOperation = {
  readonly kind: "deployment";
  /** The revision that a compare-and-swap expects to be active; undefined for a forced deployment. */
  readonly expected: string | undefined;
  readonly outcome: DeploymentOutcome | Unknown;
};

export type DeploymentOutcome =
  | { readonly kind: "committed"; readonly rev: string }
  /** Rejected, because `active` was the active revision. */
  | { readonly kind: "mismatch"; readonly active: string };

type ReadOperation = {
  readonly kind: "read";
  /** The revision in the header `Service-Known-Revision`. */
  readonly known: string;
  readonly outcome: ReadOutcome | Unknown;
};

export type ReadOutcome = {
  readonly kind: "read";
  readonly rev: string;
  /** The operation whose flows were returned; undefined if there were none. */
  readonly flowsOf: string | undefined;
};

/** A deployment may have been committed. */
type Unknown = { readonly kind: "unknown"; readonly error: string };

/** The revision that was active according to the response. */
export function observedBy(outcome: Operation["outcome"]): string | undefined {
  switch (outcome.kind) {
    case "committed":
    case "read":
      return outcome.rev;
    case "mismatch":
      return outcome.active;
    case "unknown":
      return undefined;
  }
}

/** A revision in the database. */
export type ChainedRevision = {
  readonly rev: string;
  readonly parent: string | null;
  /** The operation that deployed it, from its message; null for the revision that was active before all operations. */
  readonly operation: string | null;
};
