import type { CredentialSets, DeploymentType } from "../flows/configuration.ts";
import type { FlowsDiff } from "../flows/diff/flows-diff.ts";
import type { DeploymentPlan, RuntimeView } from "../flows/plan/plan.ts";

/** A configuration whose flows are JSON in UTF-8, which is cheaper to copy to a thread than objects. */
export type EncodedConfiguration = { readonly json: Uint8Array; readonly credentials: CredentialSets };

type Sides<Configuration> = { readonly base: Configuration; readonly target: Configuration };

export type DiffCall<Configuration = EncodedConfiguration> = { readonly kind: "diff" } & Sides<Configuration>;

/** `base` is what the diff begins with, `current` what the deployment replaces. */
export type PlanCall<Configuration = EncodedConfiguration> = {
  readonly kind: "plan";
  readonly current: Configuration;
  readonly type: DeploymentType;
  readonly runtime: RuntimeView;
} & Sides<Configuration>;

/** `text` is for people. */
export type DiffResult = { readonly diff: FlowsDiff; readonly text: string };

export type PlanResult = DiffResult & { readonly plan: DeploymentPlan };
