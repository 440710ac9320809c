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
  NodeAction,
  type PlanFlowsResponse,
  PlanFlowsResponseSchema,
  PlanWarningKind,
  type PlannedNodeSchema,
} from "../../../gen/flowgate/v1/flows_pb.ts";
import { type DiffRevisionResponse, DiffRevisionResponseSchema } from "../../../gen/flowgate/v1/revisions_pb.ts";
import type { Aspect, FlowsDiff, NodeDiff } from "../diff/flows-diff.ts";
import type { Container, NodeRole as Role } from "../nodes.ts";
import type { DeploymentPlan, PlannedNode } from "../plan/plan.ts";
import type { WarningKind } from "../plan/warnings.ts";
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

function toFlowsDiff({ containers }: FlowsDiff): MessageInitShape<typeof FlowsDiffSchema> {
  return {
    containers: containers.map(({ kind, id, name, nodes }) => ({
      kind: kinds[kind],
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
    role: roles[role],
    change: changes[change],
    aspects: node.aspects.map((aspect) => aspects[aspect]),
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

const kinds: Readonly<Record<Container["kind"], ContainerKind>> = {
  tab: ContainerKind.TAB,
  subflow: ContainerKind.SUBFLOW,
  global: ContainerKind.GLOBAL,
};

const roles: Readonly<Record<Role, NodeRole>> = {
  tab: NodeRole.TAB,
  subflow: NodeRole.SUBFLOW,
  group: NodeRole.GROUP,
  config: NodeRole.CONFIG,
  instance: NodeRole.INSTANCE,
  node: NodeRole.NODE,
};

const changes: Readonly<Record<NodeDiff["change"], NodeChange>> = {
  added: NodeChange.ADDED,
  removed: NodeChange.REMOVED,
  changed: NodeChange.CHANGED,
};

const aspects: Readonly<Record<Aspect, NodeAspect>> = {
  position: NodeAspect.POSITION,
  order: NodeAspect.ORDER,
  container: NodeAspect.CONTAINER,
  group: NodeAspect.GROUP,
  wires: NodeAspect.WIRES,
  properties: NodeAspect.PROPERTIES,
  credentials: NodeAspect.CREDENTIALS,
};

/** The JSON path of a value in a node, with all names in full. */
function formatPropertyPath(path: JsonPath): string {
  return formatPath(path, Infinity);
}
