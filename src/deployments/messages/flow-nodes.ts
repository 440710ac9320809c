import { create } from "@bufbuild/protobuf";
import { type FlowNode, toSubmittedNodes } from "@flowgate/flows";
import { type Node, NodeSchema } from "../../../gen/flowgate/v1/flows_pb.ts";

export function toNodes(flows: readonly FlowNode[]): Node[] {
  return toSubmittedNodes(flows).map((node) => create(NodeSchema, node));
}
