import type { CredentialSets, DeploymentType } from "../flows/configuration.ts";
import type { SideChanges } from "../flows/merge/compare-sides.ts";
import type { MergeConflict } from "../flows/merge/merge-result.ts";
import type { FlowsDiff } from "../flows/diff/flows-diff.ts";
import type { DeploymentPlan, RuntimeView } from "../flows/plan/plan.ts";
import type { Violation } from "../flows/violation.ts";

/** A configuration whose flows are JSON in UTF-8, which is cheaper to copy to a thread than objects. */
export type EncodedConfiguration = { readonly json: Uint8Array; readonly credentials: CredentialSets };

type Sides<Configuration> = { readonly base: Configuration; readonly target: Configuration };

export type DiffCall<Configuration = EncodedConfiguration> = {
  readonly kind: "diff";
  readonly encodes: boolean;
} & Sides<Configuration>;

/** `base` is what the diff begins with, `current` what the deployment replaces. */
export type PlanCall<Configuration = EncodedConfiguration> = {
  readonly kind: "plan";
  readonly encodes: boolean;
  readonly current: Configuration;
  readonly type: DeploymentType;
  readonly runtime: RuntimeView;
} & Sides<Configuration>;

/** Two changes of `base`. */
export type MergeCall<Configuration = EncodedConfiguration> = {
  readonly kind: "merge";
  readonly base: Configuration;
  readonly ours: Configuration;
  readonly theirs: Configuration;
};

export type ValidateCall<Configuration = EncodedConfiguration> = {
  readonly kind: "validate";
  readonly base: Configuration;
};

/**
 * The diff is JSON of a FlowsDiff message if the call is to encode it and was made in the thread: building the message of a large
 * diff, and its JSON, takes longer than the diff itself. `text` is for people.
 */
export type DiffResult = { readonly diff: FlowsDiff | Uint8Array<ArrayBuffer>; readonly text: string };

export type MergeResult<Configuration = EncodedConfiguration & { readonly count: number }> = {
  /** What both sides changed. */
  readonly changes: readonly SideChanges[];
  readonly conflicts: readonly MergeConflict[];
  /** Undefined if there are conflicts. */
  readonly merged: Configuration | undefined;
};

/** `plan` is undefined if more nodes would run than it may list. */
export type PlanResult = DiffResult & { readonly plan: DeploymentPlan | undefined };

/** `violation` is the first one. */
export type ValidateResult = { readonly violation: Violation | undefined };

export type AnalysisCall = DiffCall | PlanCall | MergeCall | ValidateCall;

export type AnalysisResult = DiffResult | PlanResult | MergeResult | ValidateResult;

/** Planning so many nodes takes 4 s if they are in the document, and 0.4 s if they are in instances of subflows; the first plan takes twice as long. */
export const maxPlannedNodes = 100_000;
