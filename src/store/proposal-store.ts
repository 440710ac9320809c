import type { DeploymentType, FlowsDocument } from "@flowgate/flows";
import type { ChangedContainer } from "@flowgate/flows/compare";
import type { AuditRecord, Origin } from "./audit-store.ts";

export type ProposedDeployment = Origin & {
  readonly id: string;
  readonly base: string;
  readonly deploymentType: DeploymentType;
  readonly message: string | undefined;
  /** As in a deployment. */
  readonly waitMs: number | undefined;
  readonly undoOnFailure: boolean;
  readonly maxErrors: number;
  /** The differences from the base. */
  readonly changes: readonly ChangedContainer[];
  /** The modules that are installed with it. */
  readonly modules: readonly ProposedModule[];
  /** SHA-256 of all that is proposed, in hexadecimal. */
  readonly digest: string;
};

export type ProposedModule = {
  readonly name: string;
  /** Exact, a range or a tag; empty: any. */
  readonly version: string;
  /** The hash that its tarball must have; undefined: any. */
  readonly integrity: string | undefined;
};

/** The end of a proposal: its state, who closed it, and why. */
export type ProposalClosing = Pick<Origin, "by" | "token"> & {
  readonly state: "approved" | "rejected" | "withdrawn";
  readonly atMs: number;
  readonly reason: string | undefined;
  /** The revision that the approval has made. */
  readonly rev: string | undefined;
};

/** `stale`: its base is not active any more. */
export type ProposalState = "open" | "stale" | "expired" | ProposalClosing["state"];

/** A proposal without flows and credentials. */
export type ProposalEntry = ProposedDeployment & {
  /** Sequence number, which grows with each proposal. */
  readonly seq: number;
  readonly createdAtMs: number;
  readonly expiresAtMs: number;
  readonly nodeCount: number;
  /** The size of the flows' JSON. */
  readonly sizeBytes: number;
  /** Undefined while it is open. */
  readonly closing: ProposalClosing | undefined;
};

export type ProposalContent = {
  readonly flows: FlowsDocument;
  /** The credentials of the request, as a text that the store encrypts and does not interpret. */
  readonly credentials: string;
};

export type ProposalDraft = ProposedDeployment & ProposalContent & { readonly lifetimeMs: number };

/** The numbers of proposals that can be open. */
export type ProposalLimits = { readonly perUser: number; readonly total: number };

export type ProposalPage = {
  readonly proposals: readonly ProposalEntry[];
  /** The cursor of the next page; undefined on the last one. */
  readonly next: number | undefined;
};

export type ProposalQuery = {
  readonly limit: number;
  /** The cursor of the previous page. */
  readonly before?: number | undefined;
  readonly by?: string | undefined;
  /** With what determines the states: the active revision, and the time. */
  readonly state?: { readonly is: ProposalState; readonly activeRev: string; readonly nowMs: number } | undefined;
};

/**
 * Stores proposed deployments. Each change is durable before its promise resolves, and writes the given audit entry in the same
 * transaction. `FlowStore.commit` closes the proposal that it deploys.
 */
export interface ProposalStore {
  /**
   * Rejects with `version_mismatch` if the base is not the active revision, and with `limit_exceeded` if too many proposals are open.
   * Removes the oldest ones that can't be approved any more, except for the newest of them. Credentials are encrypted at rest.
   */
  create(draft: ProposalDraft, entry: AuditRecord, limits: ProposalLimits): Promise<ProposalEntry>;
  /** Resolves with undefined if there is no such proposal. */
  findEntry(id: string): Promise<ProposalEntry | undefined>;
  /** The same with its content. */
  find(id: string): Promise<(ProposalEntry & ProposalContent) | undefined>;
  /** Newest first. */
  list(query: ProposalQuery): Promise<ProposalPage>;
  /**
   * Rejects or withdraws a proposal, which need not be based on the active revision. Resolves with undefined, and changes nothing,
   * unless it exists, was not closed before and has not expired.
   */
  close(
    id: string,
    closing: Pick<ProposalClosing, "reason"> & { readonly state: "rejected" | "withdrawn" },
    entry: AuditRecord,
  ): Promise<ProposalEntry | undefined>;
}

export function stateOf(
  { closing, base, expiresAtMs }: Pick<ProposalEntry, "closing" | "base" | "expiresAtMs">,
  activeRev: string,
  nowMs: number,
): ProposalState {
  if (closing !== undefined) {
    return closing.state;
  }
  // A revision that was replaced never becomes active again: what restores its flows is another one.
  if (base !== activeRev) {
    return "stale";
  }
  return expiresAtMs <= nowMs ? "expired" : "open";
}
