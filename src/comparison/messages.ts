import type { CredentialSets } from "../flows/configuration.ts";
import type { SideChanges } from "../flows/merge/compare-sides.ts";
import type { MergeConflict } from "../flows/merge/merge-result.ts";

/** The content of a revision; `json` is that of its document. */
export type ContentBytes = { readonly json: Uint8Array; readonly credentials: CredentialSets };

export type MergeCall = { readonly base: ContentBytes; readonly ours: ContentBytes; readonly theirs: ContentBytes };

export type MergeReply = {
  /** What both sides changed. */
  readonly changes: readonly SideChanges[];
  /** Empty if the sides could be merged. */
  readonly conflicts: readonly MergeConflict[];
  /** Undefined if there are conflicts. */
  readonly merged: (ContentBytes & { readonly count: number }) | undefined;
};
