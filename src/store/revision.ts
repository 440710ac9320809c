import type { CredentialSets, DeploymentType, KeptCredentials, FlowsDocument } from "@flowgate/flows";
import type { Origin } from "./audit-store.ts";

/** The origin of a revision's flows: a deployment, a merge with another one, or an earlier revision. */
export type RevisionCause = "deployment" | "merge" | "flow" | "restore" | "undo" | "automatic_undo";

/** A revision without its flows and credentials. Immutable. */
export type RevisionSummary = Origin & {
  /** Opaque id, unique to each deployment. */
  readonly rev: string;
  /** The revision that this one replaced; undefined for the first. It may have been removed. */
  readonly parent: string | undefined;
  /** Sequence number, incremented by one with each deployment. */
  readonly seq: number;
  readonly committedAtMs: number;
  readonly deploymentType: DeploymentType;
  readonly cause: RevisionCause;
  /** The earlier revision whose flows and credentials this one has. */
  readonly restoredRev: string | undefined;
  /** The deployed proposal, whose origin the revision then has, and its approver; undefined: it was not proposed. */
  readonly approval?: (Pick<Origin, "by" | "token"> & { readonly proposalId: string }) | undefined;
  readonly nodeCount: number;
  /** The size of the flows' JSON. */
  readonly sizeBytes: number;
};

/** An accepted deployment. Frozen, because callers share the object. */
export type Revision = RevisionSummary & {
  readonly flows: FlowsDocument;
  readonly credentials: CredentialSets;
  /** The location of node credentials that earlier revisions had. */
  readonly kept: KeptCredentials;
  /** The number of the newest write of nodes that the credentials consider; absent in a revision that was just written or read. */
  readonly writtenSeq?: number;
};

/**
 * The health of a revision's flows while it was active last. `pending`: not known yet; `undone`: the flows before were deployed again;
 * `replaced`: a newer revision was committed before this one was started; `stopped`: the flows were stopped while it was the active one, or
 * before it was started.
 */
export type RevisionOutcome = {
  readonly state: (typeof outcomeStates)[number];
  /** Why the flows don't run, or the worst condition. */
  readonly message: string | undefined;
  /** The node types that are not installed. */
  readonly missingTypes: readonly string[];
};

export const outcomeStates = ["pending", "running", "degraded", "failed", "undone", "replaced", "stopped"] as const;

/** The properties of a revision that may change. */
export type RevisionState = {
  readonly message: string | undefined;
  /** A pinned revision is never removed by `prune`. */
  readonly pinned: boolean;
  readonly outcome: RevisionOutcome;
  /** The revision is undone unless its flows run without failure for this time; undefined: there is no such condition, or no longer. */
  readonly probationMs: number | undefined;
  /** The number of unexpected exits of the runtime process while the revision was active. */
  readonly restarts: number;
};

/** The number of errors that nodes may log in the first `forMs` of a revision. More are a failure. */
export type ErrorLimit = { readonly forMs: number; readonly maxErrors: number };

export type RevisionEntry = RevisionSummary &
  RevisionState & {
    /** Undefined: there is none. */
    readonly errorLimit: ErrorLimit | undefined;
  };
