import { create, type MessageInitShape } from "@bufbuild/protobuf";
import {
  NodeAction,
  type PlanFlowsResponse,
  PlanFlowsResponseSchema,
  type PlannedNodeSchema,
  PlanWarningKind,
} from "../../gen/flowgate/v1/flows_pb.ts";
import { type DiffRevisionResponse, DiffRevisionResponseSchema } from "../../gen/flowgate/v1/revisions_pb.ts";
import type { FlowsDiff } from "../flows/diff/flows-diff.ts";
import type { DeploymentPlan, PlannedNode } from "../flows/plan/plan.ts";
import type { WarningKind } from "../flows/plan/warnings.ts";
import { toFlowsDiff } from "./diff-message.ts";
import type { PlanCall } from "./messages.ts";

/** `text` is the same for people. */
type Described = { readonly rev: string; readonly diff: FlowsDiff; readonly text: string };

export function toDiffRevisionResponse({
  diff,
  plan,
  ...fields
}: Described & { readonly base: string; readonly plan: DeploymentPlan | undefined }): DiffRevisionResponse {
  const nodes = toPlannedNodes(plan?.nodes ?? []);
  return create(DiffRevisionResponseSchema, { ...fields, nodes, diff: toFlowsDiff(diff) });
}

export function toPlanFlowsResponse({
  diff,
  plan,
  ...fields
}: Described & PlanCall["active"] & { readonly plan: DeploymentPlan }): PlanFlowsResponse {
  return create(PlanFlowsResponseSchema, {
    ...fields,
    diff: toFlowsDiff(diff),
    nodes: toPlannedNodes(plan.nodes),
    missingTypes: plan.missingTypes.map(({ type, nodeIds }) => ({ type, nodeIds: [...nodeIds] })),
    modules: plan.modules.map(({ name, version, nodeIds }) => ({
      name,
      ...(version !== undefined && { version }),
      nodeIds: [...nodeIds],
    })),
    warnings: plan.warnings.map(({ kind, nodeId, container, message }) => ({
      kind: warningKinds[kind],
      nodeId,
      container,
      message,
    })),
  });
}

function toPlannedNodes(nodes: readonly PlannedNode[]): MessageInitShape<typeof PlannedNodeSchema>[] {
  return nodes.map(({ id, type, name, tab, instances, action }) => ({
    id,
    type,
    ...(name !== undefined && { name }),
    tab,
    instances: [...instances],
    action: actions[action],
  }));
}

const actions: Readonly<Record<PlannedNode["action"], NodeAction>> = {
  stop: NodeAction.STOP,
  start: NodeAction.START,
  restart: NodeAction.RESTART,
};

const warningKinds: Readonly<Record<WarningKind, PlanWarningKind>> = {
  unused_config: PlanWarningKind.UNUSED_CONFIG,
  wire_to_nothing: PlanWarningKind.WIRE_TO_NOTHING,
  link_to_nothing: PlanWarningKind.LINK_TO_NOTHING,
  duplicate_endpoint: PlanWarningKind.DUPLICATE_ENDPOINT,
  lost_credentials: PlanWarningKind.LOST_CREDENTIALS,
  removed_credentials: PlanWarningKind.REMOVED_CREDENTIALS,
};
