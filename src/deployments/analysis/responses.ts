import { type JsonValue, type MessageInitShape, create, fromJson } from "@bufbuild/protobuf";
import { type Value, ValueSchema } from "@bufbuild/protobuf/wkt";
import { type JsonPath, formatPath } from "@flowgate/gateway/json-path";
import {
  ContainerKind,
  type FlowsDiffSchema,
  NodeAspect,
  NodeChange,
  type NodeDiffSchema,
  NodeRole,
} from "../../../gen/flowgate/v1/diff_pb.ts";
import {
  ModuleState,
  NodeAction,
  type PlanFlowsResponse,
  PlanFlowsResponseSchema,
  PlanWarningKind,
  type PlannedNodeSchema,
  type RequiredModuleSchema,
} from "../../../gen/flowgate/v1/flows_pb.ts";
import { type DiffRevisionResponse, DiffRevisionResponseSchema } from "../../../gen/flowgate/v1/revisions_pb.ts";
import { enumValue } from "@flowgate/base/enums";
import type { FlowsDiff, NodeDiff, DeploymentPlan, PlannedNode } from "@flowgate/flows/compare";
import type { PlannedModule } from "@flowgate/flows";
import type { PlanCall } from "./messages.ts";

/** `text` is the same for people. */
type Described = { readonly rev: string; readonly diff: FlowsDiff; readonly text: string };

export function toDiffRevisionResponse({
  diff,
  plan,
  modules,
  ...fields
}: Described & {
  readonly base: string;
  readonly plan: DeploymentPlan | undefined;
  readonly modules: readonly PlannedModule[];
}): DiffRevisionResponse {
  const nodes = toPlannedNodes(plan?.nodes ?? []);
  return create(DiffRevisionResponseSchema, {
    ...fields,
    nodes,
    modules: modules.map(toRequiredModule),
    diff: toFlowsDiff(diff),
  });
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
    modules: plan.modules.map(toRequiredModule),
    warnings: plan.warnings.map(({ kind, ...warning }) => ({ kind: enumValue(PlanWarningKind, kind), ...warning })),
  });
}

function toRequiredModule({
  name,
  version,
  nodeIds,
  state,
  installedVersion,
  flows,
}: PlannedModule): MessageInitShape<typeof RequiredModuleSchema> {
  return {
    name,
    ...(version !== undefined && { version }),
    nodeIds: [...nodeIds],
    state: enumValue(ModuleState, state),
    ...(installedVersion !== undefined && { installedVersion }),
    flows: [...flows],
  };
}

function toPlannedNodes(nodes: readonly PlannedNode[]): MessageInitShape<typeof PlannedNodeSchema>[] {
  return nodes.map(({ id, type, name, tab, instances, action }) => ({
    id,
    type,
    ...(name !== undefined && { name }),
    tab,
    instances: [...instances],
    action: enumValue(NodeAction, action),
  }));
}

function toFlowsDiff({ containers }: FlowsDiff): MessageInitShape<typeof FlowsDiffSchema> {
  return {
    containers: containers.map(({ kind, id, name, nodes }) => ({
      kind: enumValue(ContainerKind, kind),
      id,
      ...(name !== undefined && { name }),
      nodes: nodes.map(toNodeDiff),
    })),
  };
}

function toNodeDiff(node: NodeDiff): MessageInitShape<typeof NodeDiffSchema> {
  const { id, type, name, role, change, credentials, after } = node;
  return {
    id,
    type,
    ...(name !== undefined && { name }),
    role: enumValue(NodeRole, role),
    change: enumValue(NodeChange, change),
    aspects: node.aspects.map((aspect) => enumValue(NodeAspect, aspect)),
    properties: node.properties.map(({ path, before, after }) => ({
      path: formatPropertyPath(path),
      ...(before !== undefined && { before: toValue(before) }),
      ...(after !== undefined && { after: toValue(after) }),
    })),
    ...(Object.values(credentials).some((names) => names.length > 0) && {
      credentials: {
        added: [...credentials.added],
        removed: [...credentials.removed],
        changed: [...credentials.changed],
      },
    }),
    ...(after !== undefined && { after }),
  };
}

function toValue(value: JsonValue): Value {
  return fromJson(ValueSchema, value);
}

/** The JSON path of a value in a node, with all names in full. */
function formatPropertyPath(path: JsonPath): string {
  return formatPath(path, Infinity);
}
