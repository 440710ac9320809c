import type { Configuration } from "../configuration.ts";

/** The two sides of a merge: the configuration to deploy, and the active one, which was deployed in the meantime. */
export type Side = "ours" | "theirs";

export type MergeResult =
  | {
      readonly kind: "merged";
      readonly configuration: Configuration;
      /** The nodes that differ from the base, and where their change is from. */
      readonly changes: readonly MergedChange[];
    }
  | { readonly kind: "conflict"; readonly conflicts: readonly MergeConflict[] };

export type MergedChange = {
  readonly nodeId: string;
  /** `both` made the same change, or one that is compatible: one side moved the node, and the other changed it. */
  readonly from: Side | "both";
};

export type MergeConflict = {
  readonly nodeId: string;
  readonly ours: SideChange;
  readonly theirs: SideChange;
  /** Why it is a conflict, for people. */
  readonly message: string;
};

export type SideChange = "none" | "added" | "changed" | "removed";
