import { createHash } from "node:crypto";
import type { Context } from "@opentelemetry/api";
import type { Analysis } from "./analysis/analysis.ts";
import type { NodeChanges } from "./analysis/node-changes.ts";
import { FlowgateError } from "@flowgate/flows/errors";
import type { CredentialSets, DeploymentType, SubmittedCredentials, FlowsDocument } from "@flowgate/flows";
import type { ChangedContainer } from "@flowgate/flows/compare";
import type { WantedModule } from "@flowgate/runtime/modules";
import type { Approval, FlowStore, RevisionDraft } from "../store/flow-store.ts";
import type { Origin } from "../store/audit-store.ts";
import type { Revision, RevisionCause } from "../store/revision.ts";
import type { ModuleSets } from "./module-sets.ts";

/** The conditions on the active revision. */
export type Conditions = {
  /** True if they are preconditions of the whole request, which a reload has to satisfy too, and not only its field `rev`. */
  readonly isPrecondition: boolean;
  /** Returns the revision that must still be active at the commit; undefined: any. Throws `precondition_failed`. */
  evaluate(active: Revision): string | undefined;
};

export type DeploymentCall = {
  readonly origin: Origin;
  /** Callers with different sources take turns. */
  readonly source: string;
  readonly conditions: Conditions;
  readonly message: string | undefined;
  readonly idempotencyKey: string | undefined;
  /**
   * The time for which the flows must run without failure before the call is answered; undefined: until they are
   * started.
   */
  readonly waitMs: number | undefined;
  /** True if the parent is deployed again if the flows fail within `waitMs`. */
  readonly undoOnFailure: boolean;
  /** The number of errors that nodes may log within `waitMs`. */
  readonly maxErrors: number;
  /**
   * Throws if the caller may not change all of these. Returns the changes without a required approval, for callers who
   * may make them. Undefined: everything can be changed.
   */
  readonly authorize: ((changed: readonly ChangedContainer[]) => string | undefined) | undefined;
  /** The approval of the proposal that this deploys. */
  readonly approval?: Approval | undefined;
  /** Throws if the caller may not install modules, either of an earlier revision or new ones. */
  readonly assertMayInstall: (isRestored: boolean) => void;
  /** True if to merge with the revisions after the expected one. */
  readonly merge: boolean;
  readonly signal: AbortSignal;
  /** Until when the caller waits for the runtime, on the clock of performance.now(); undefined: until the runtime's own deadline. */
  readonly untilMs: number | undefined;
  /** The trace that the deployment belongs to, and when the call began, on the clock of performance.now(). */
  readonly trace: Context;
  readonly startMs: number;
};

export type RevisionContent = {
  readonly flows: FlowsDocument;
  readonly credentials: CredentialSets;
  /**
   * The submitted credentials; undefined: the content is a revision's, which determines the credentials of all nodes.
   */
  readonly submitted?: SubmittedCredentials | undefined;
  /** The earlier revision that has this content. Its modules are installed with it. */
  readonly restoredRev?: string | undefined;
  readonly message?: string | undefined;
  /** The modules that have to be installed for this content. */
  readonly modules?: readonly WantedModule[] | undefined;
  /** Replaces the type of the change. */
  readonly deploymentType?: DeploymentType | undefined;
};

export type Change = {
  readonly cause: RevisionCause;
  readonly deploymentType: DeploymentType;
  /** Returns the content of the new revision. Called again if another revision becomes active before the commit. */
  apply(active: Revision): RevisionContent | Promise<RevisionContent>;
  /** The parts of the request that a repetition of it with the same idempotency key must have too. */
  identity(): readonly (string | Uint8Array)[];
};

export type Committed = {
  readonly revision: Revision;
  /** The revision that the change was merged with, and what both changed; undefined if it was not merged. */
  readonly merge?: { readonly rev: string; readonly changes: NodeChanges } | undefined;
};

export type CommitOptions = {
  readonly store: Pick<
    FlowStore,
    "active" | "commit" | "find" | "findCredentials" | "findEntry" | "findRepeated" | "unclaimedCredentials"
  >;
  readonly analysis: Pick<Analysis, "merge" | "findChangedContainers">;
  readonly modules: Pick<ModuleSets, "commit">;
};

export function toDraft(
  change: Change,
  {
    flows,
    credentials,
    kept,
    restoredRev,
    deploymentType = change.deploymentType,
    unapproved,
    writes,
    message: defaultMessage,
  }: RevisionContent & Pick<RevisionDraft, "kept" | "unapproved" | "writes">,
  { origin, approval, message = defaultMessage, idempotencyKey, waitMs, undoOnFailure, maxErrors }: DeploymentCall,
  parent: string,
): RevisionDraft {
  return {
    ...origin,
    parent,
    cause: change.cause,
    deploymentType,
    flows,
    credentials,
    kept,
    restoredRev,
    approval,
    unapproved,
    writes,
    message,
    probationMs: undoOnFailure ? waitMs : undefined,
    errorLimit: waitMs === undefined || waitMs === 0 ? undefined : { forMs: waitMs, maxErrors },
    idempotencyKey:
      idempotencyKey === undefined ? undefined : { key: idempotencyKey, fingerprint: fingerprint(change) },
  };
}

/** True if the parent of a draft was not the active revision. */
export function isMismatch(error: unknown): error is FlowgateError {
  return error instanceof FlowgateError && error.reason === "version_mismatch";
}

/** Returns the SHA-256 of what distinguishes the request of a change from others. */
export function fingerprint(change: Change): Buffer {
  const hash = createHash("sha256");
  for (const part of [change.cause, change.deploymentType, ...change.identity()]) {
    const bytes = Buffer.from(part);
    // Lengths keep adjacent parts apart.
    hash.update(`${bytes.length}:`).update(bytes);
  }
  return hash.digest();
}
