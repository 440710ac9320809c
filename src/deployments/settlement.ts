import type { DeploymentResult } from "../runtime/runtime.ts";

/** The outcome of a deployment. `replaced`: a newer one was made before the flows were started; `undone`: they failed, and the previous ones were deployed again. */
export type Settlement = Omit<DeploymentResult, "outcome"> & {
  readonly outcome: DeploymentResult["outcome"] | "replaced" | "undone";
  /** The revision that is active as a result: the deployed one, or the one that has undone it. */
  readonly rev: string;
};
