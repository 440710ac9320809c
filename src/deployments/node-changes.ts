import type { MessageInitShape } from "@bufbuild/protobuf";
import { NodeChangeKind, type NodeChangeSchema } from "../../gen/flowgate/v1/flows_pb.ts";
import type { Merge } from "../comparison/comparison.ts";
import type { SideChange } from "../flows/merge/merge-result.ts";

export type NodeChanges = {
  /** Those in conflict first. */
  readonly listed: MessageInitShape<typeof NodeChangeSchema>[];
  /** The number of all. */
  readonly count: number;
};

/** Over gRPC they are sent in a trailer, which is limited to a few kilobytes. */
const maxListed = 20;
const maxTextChars = 64;

const kinds: Readonly<Record<SideChange, NodeChangeKind>> = {
  none: NodeChangeKind.UNSPECIFIED,
  added: NodeChangeKind.ADDED,
  changed: NodeChangeKind.CHANGED,
  removed: NodeChangeKind.REMOVED,
};

export function toNodeChanges({ changes, conflicts }: Pick<Merge, "changes" | "conflicts">): NodeChanges {
  const messages = new Map(conflicts.map(({ nodeId, message }) => [nodeId, message]));
  const sorted = [
    ...changes.filter(({ nodeId }) => messages.has(nodeId)),
    ...changes.filter(({ nodeId }) => !messages.has(nodeId)),
  ];
  const listed = sorted.slice(0, maxListed).map(({ nodeId, type, name = "", ours, theirs }) => ({
    nodeId: shorten(nodeId),
    type: shorten(type),
    name: shorten(name),
    yours: kinds[ours],
    theirs: kinds[theirs],
    conflict: messages.get(nodeId) ?? "",
  }));
  return { listed, count: changes.length };
}

function shorten(text: string): string {
  return text.length > maxTextChars ? `${text.slice(0, maxTextChars).toWellFormed()}…` : text;
}
