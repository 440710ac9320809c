import type { MessageInitShape } from "@bufbuild/protobuf";
import { NodeChange } from "../../../gen/flowgate/v1/diff_pb.ts";
import type { ConcurrentChangeSchema } from "../../../gen/flowgate/v1/flows_pb.ts";
import { enumValue } from "@flowgate/base/enums";
import type { MergeConflict, SideChange, SideChanges } from "@flowgate/flows/compare";

export type NodeChanges = {
  /** Conflicting changes first. */
  readonly listed: MessageInitShape<typeof ConcurrentChangeSchema>[];
  /** The number of all. */
  readonly count: number;
};

/** Over gRPC they are sent in a trailer, which is limited to a few kilobytes. */
const maxListed = 20;
const maxTextChars = 64;
const maxMessageChars = 256;

export function toNodeChanges(changes: readonly SideChanges[], conflicts: readonly MergeConflict[]): NodeChanges {
  const messages = new Map(conflicts.map(({ nodeId, message }) => [nodeId, message]));
  const sorted = [
    ...changes.filter(({ nodeId }) => messages.has(nodeId)),
    ...changes.filter(({ nodeId }) => !messages.has(nodeId)),
  ];
  const listed = sorted
    .slice(0, maxListed)
    .map(({ nodeId, type, name = "", ours, theirs }) => ({
      nodeId: shorten(nodeId),
      type: shorten(type),
      name: shorten(name),
      yours: toNodeChange(ours),
      theirs: toNodeChange(theirs),
      conflict: shorten(messages.get(nodeId) ?? "", maxMessageChars),
    }));
  return { listed, count: changes.length };
}

function toNodeChange(change: SideChange): NodeChange {
  return change === "none" ? NodeChange.UNSPECIFIED : enumValue(NodeChange, change);
}

function shorten(text: string, maxChars = maxTextChars): string {
  return text.length > maxChars ? `${text.slice(0, maxChars).toWellFormed()}…` : text;
}
