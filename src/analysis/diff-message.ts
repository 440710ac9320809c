import { fromJson, type JsonValue, type MessageInitShape } from "@bufbuild/protobuf";
import { ValueSchema, type Value } from "@bufbuild/protobuf/wkt";
import {
  ContainerKind,
  type FlowsDiffSchema,
  NodeAspect,
  NodeChange,
  type NodeDiffSchema,
  NodeRole,
} from "../../gen/flowgate/v1/diff_pb.ts";
import type { Container } from "../flows/containers.ts";
import type { Aspect, FlowsDiff, NodeDiff } from "../flows/diff/flows-diff.ts";
import { formatPropertyPath } from "../flows/diff/property-path.ts";
import type { NodeRole as Role } from "../flows/node-role.ts";

export function toFlowsDiff({ containers }: FlowsDiff): MessageInitShape<typeof FlowsDiffSchema> {
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
