import type { PlanFlowsResponse } from "../../../gen/flowgate/v1/flows_pb.ts";
import type { Configuration, DeploymentType, Violation, FlowNeeds, KnownModule } from "@flowgate/flows";
import type { ChangedContainer, AffectedNodes, RuntimeView } from "@flowgate/flows/compare";
import type { NodeChanges } from "./node-changes.ts";

export type AnalysisData = {
  /** The size of the largest response. */
  readonly maxResponseBytes: number;
  readonly maxMs: number;
};

/** A configuration whose flows are JSON in UTF-8, which is cheaper to copy to a thread than objects. */
export type EncodedConfiguration = Omit<Configuration, "flows"> & { readonly json: Uint8Array };

/** The body of an HTTP response, or an RPC message in one of its formats. */
export type ResponseFormat = "http" | "json" | "proto";

/** A comparison for a DiffRevisionResponse with these names. */
export type DiffCall<Content = EncodedConfiguration> = {
  readonly kind: "diff";
  readonly format: ResponseFormat;
  readonly base: Content;
  readonly target: Content;
  readonly names: { readonly base: string; readonly rev: string };
  /** The replacement of the base by the target; undefined if the response does not describe it. */
  readonly deployment:
    | {
        readonly type: DeploymentType;
        readonly isRunning: boolean;
        /** The types that were not installed. */
        readonly missingTypes: readonly string[];
      }
    | undefined;
  /** The modules of the target, and the installed ones. */
  readonly modules: readonly KnownModule[];
};

/** A plan for a PlanFlowsResponse. `base` is the start of the diff, `current` the replaced flows. */
export type PlanCall<Content = EncodedConfiguration> = {
  readonly kind: "plan";
  readonly format: ResponseFormat;
  readonly base: Content;
  readonly target: Content;
  readonly current: Content;
  /** The `rev` of `current`. */
  readonly rev: string;
  readonly type: DeploymentType;
  readonly runtime: RuntimeView;
  /** True if the active flows run. */
  readonly active: Pick<PlanFlowsResponse, "activeOutcome" | "activeOutcomeMessage">;
};

/** Two changes of `base`. */
export type MergeCall<Content = EncodedConfiguration> = {
  readonly kind: "merge";
  readonly base: Content;
  readonly ours: Content;
  readonly theirs: Content;
};

/** Finds the nodes that the deployment of `target` affects. */
export type AffectedCall<Content = EncodedConfiguration> = {
  readonly kind: "affected";
  readonly base: Content;
  readonly target: Content;
};

/** Finds the tabs and subflows that a change touches. */
export type ContainersCall<Content = EncodedConfiguration> = {
  readonly kind: "containers";
  readonly base: Content;
  readonly target: Content;
  /** Nodes that count as changed, whether they differ or not. */
  readonly touched: ReadonlySet<string>;
};

export type ValidateCall<Content = EncodedConfiguration> = { readonly kind: "validate"; readonly base: Content };

/** A response with the flows of `base`, or a `Flow` of them. */
export type EncodeCall<Content = EncodedConfiguration> = {
  readonly kind: "encode";
  readonly format: ResponseFormat;
  readonly base: Content;
  readonly typeName: string;
  /** The other fields of the response, encoded; of a `Flow`, its `id` and `rev`. */
  readonly fields: Uint8Array;
};

/** A response message, which is encoded in the thread, since that takes longer than the comparison itself. */
export type EncodedResponse = {
  readonly bytes: Uint8Array<ArrayBuffer>;
  /** Its field `text` in UTF-8, for HTTP responses that consist of it; undefined for RPC messages. */
  readonly text: Uint8Array<ArrayBuffer> | undefined;
};

export type MergeReply<Content = EncodedConfiguration & { readonly count: number; readonly needs: FlowNeeds }> = {
  /** The changes of both sides. */
  readonly changes: NodeChanges;
  readonly conflictCount: number;
  /** Undefined if there are conflicts. */
  readonly merged: Content | undefined;
};

/** `violation` is the first one. */
export type ValidateResult = { readonly violation: Violation | undefined };

export type AnalysisCall = DiffCall | PlanCall | MergeCall | AffectedCall | ContainersCall | ValidateCall | EncodeCall;

export type AffectedResult = { readonly affected: AffectedNodes };

export type ContainersResult = { readonly changed: readonly ChangedContainer[] };

export type AnalysisResult = EncodedResponse | MergeReply | AffectedResult | ContainersResult | ValidateResult;
