import { create } from "@bufbuild/protobuf";
import { type Node, NodeSchema } from "../../gen/flowgate/v1/flows_pb.ts";
import type { FlowNode } from "./configuration.ts";

/** The inverse of `parseFlows`. A label that is not a string is in `properties`. */
export function toNodes(flows: readonly FlowNode[]): Node[] {
  return flows.map(({ id, type, ...properties }) => {
    if (typeof properties["label"] !== "string") {
      return create(NodeSchema, { id, type, properties });
    }
    const { label, ...others } = properties;
    return create(NodeSchema, { id, type, label, properties: others });
  });
}
