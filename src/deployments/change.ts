import type { CredentialSets, DeploymentType } from "../flows/configuration.ts";
import type { SubmittedCredentials } from "../flows/credentials.ts";
import type { FlowsDocument } from "../flows/document.ts";
import type { Revision, RevisionCause } from "../store/revision.ts";

/** The content of a new revision. */
export type Content = {
  readonly flows: FlowsDocument;
  readonly credentials: CredentialSets;
  /** The credentials that were submitted; undefined: the content is that of a revision, and determines those of all nodes. */
  readonly submitted?: SubmittedCredentials | undefined;
  /** The earlier revision that has this content. */
  readonly restoredRev?: string | undefined;
  /** Replaces that of the change. */
  readonly deploymentType?: DeploymentType | undefined;
};

/** A change of the active flows. */
export type Change = {
  readonly cause: RevisionCause;
  readonly deploymentType: DeploymentType;
  /** Returns the content of the new revision. Called again if another revision becomes active before the commit. */
  apply(active: Revision): Content | Promise<Content>;
  /** The parts of the request that a repetition of it with the same idempotency key must have too. */
  identity(): readonly (string | Uint8Array)[];
};
