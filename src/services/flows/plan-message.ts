import { create, type MessageInitShape } from "@bufbuild/protobuf";
import {
  NodeAction,
  type PlanFlowsResponse,
  PlanFlowsResponseSchema,
  type PlannedNodeSchema,
  PlanWarningKind,
} from "../../../gen/flowgate/v1/flows_pb.ts";
import { maxPlannedNodes, type PlanResult } from "../../analysis/messages.ts";
import { FlowgateError } from "../../errors.ts";
import type { DeploymentPlan, PlannedNode } from "../../flows/plan/plan.ts";
import type { WarningKind } from "../../flows/plan/warnings.ts";
import { setDiff } from "../diff-field.ts";

export function toPlanFlowsResponse(rev: string, { diff, plan, text }: PlanResult): PlanFlowsResponse {
  assertPlanned(plan);
  const response = create(PlanFlowsResponseSchema, {
    rev,
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
    text,
  });
  return setDiff(response, diff);
}

/** Throws `limit_exceeded` if the flows have too many nodes. */
export function assertPlanned(plan: DeploymentPlan | undefined): asserts plan is DeploymentPlan {
  if (plan === undefined) {
    throw new FlowgateError(
      "limit_exceeded",
      `flows: more than ${maxPlannedNodes} nodes would run, those in instances of subflows included: too many to plan`,
    );
  }
}

export function toPlannedNodes(nodes: readonly PlannedNode[]): MessageInitShape<typeof PlannedNodeSchema>[] {
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
};
