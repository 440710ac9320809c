import { create } from "@bufbuild/protobuf";
import { type ContainerDiff, ContainerDiffSchema, type FlowsDiff, NodeAspect, NodeChange } from "@flowgate/client";

/** Counts the added, removed and changed nodes. `moved` counts the changed nodes that differ in their place only. */
export function countChanges({ containers }: FlowsDiff): {
  readonly added: number;
  readonly removed: number;
  readonly changed: number;
  readonly moved: number;
} {
  const nodes = containers.flatMap((container) => container.nodes);
  const count = (change: NodeChange): number => nodes.filter((node) => node.change === change).length;
  return {
    added: count(NodeChange.ADDED),
    removed: count(NodeChange.REMOVED),
    changed: count(NodeChange.CHANGED),
    moved: nodes.filter(({ aspects }) => aspects.length === 1 && aspects[0] === NodeAspect.POSITION).length,
  };
}

export function takeNodes({ containers }: FlowsDiff, limit: number): ContainerDiff[] {
  let left = limit;
  const taken: ContainerDiff[] = [];
  for (const { kind, id, name, nodes } of containers) {
    if (left > 0) {
      taken.push(
        create(ContainerDiffSchema, { kind, id, ...(name !== undefined && { name }), nodes: nodes.slice(0, left) }),
      );
      left -= nodes.length;
    }
  }
  return taken;
}
