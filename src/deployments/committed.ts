import type { Analysis } from "../analysis/analysis.ts";
import type { NodeChanges } from "../analysis/node-changes.ts";
import type { FlowStore } from "../store/flow-store.ts";
import type { Revision } from "../store/revision.ts";

export type Committed = {
  readonly revision: Revision;
  /** The revision that the change was merged with, and what both changed; undefined if it was not merged. */
  readonly merge?: { readonly rev: string; readonly changes: NodeChanges } | undefined;
};

export type CommitOptions = {
  readonly store: Pick<FlowStore, "active" | "commit" | "find" | "findCredentials" | "findEntry" | "findRepeated">;
  readonly analysis: Pick<Analysis, "merge">;
};
