import type { CredentialSets } from "@flowgate/flows";

/** The limits of credentials that nodes have stored: in total, and for nodes that are not deployed yet. */
export const writtenLimits = {
  nodes: 5_000,
  totalBytes: 2 * 1024 * 1024,
  /** Nodes that are not deployed, such as a new one in an editor, which a provider calls back. */
  unclaimed: 100,
  /** The time within which these can be deployed with their stored credentials. */
  unclaimedMs: 24 * 60 * 60_000,
} as const;

export type CredentialWrite = {
  /** By node id. They replace the node's own; an empty set removes them. */
  readonly sets: CredentialSets;
  /** The sequence number of the revision that the nodes belong to; undefined: the active one's. */
  readonly sinceSeq: number | undefined;
  /** The token of the lease with which the flows run; undefined: there is none. */
  readonly token: number | undefined;
};

/**
 * `written`: they are the node's credentials from now on. `superseded`: a revision after `sinceSeq` has determined others. `full`: there
 * are too many.
 */
export type CredentialWriteResult = "written" | "superseded" | "full";

/** The relation between a revision and the credentials that nodes have written. */
export type DraftWrites = {
  /** `Revision.writtenSeq` of the revision whose credentials it is based on. */
  readonly seq: number;
  /** The nodes whose credentials the deployment determines. */
  readonly submitted: ReadonlySet<string> | "all";
  /** The new nodes for which credentials were written before. */
  readonly claimed: readonly string[];
  /** True if it replaces what `submitted` nodes have written after `seq`. Otherwise its commit rejects with `LaterWrites`. */
  readonly replacesLater: boolean;
};

/** The error of a commit of credentials that a node has changed since they were read. */
export class LaterWrites extends Error {
  constructor() {
    super("a node has written its credentials since they were read");
    this.name = "LaterWrites";
  }
}
