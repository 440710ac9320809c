import { type MessageInitShape, create } from "@bufbuild/protobuf";
import { type Node, NodeSchema } from "../../../gen/flowgate/v1/flows_pb.ts";
import { FlowgateError } from "../src/errors.ts";
import type { FlowNode } from "../src/configuration.ts";
import { type FlowsDocument, parseDocument } from "../src/document.ts";

export function documentOf(nodes: readonly FlowNode[]): FlowsDocument {
  return parseDocument(Buffer.from(JSON.stringify(nodes)));
}

export type NodeInit = MessageInitShape<typeof NodeSchema>;

export function node(init: NodeInit = {}): Node {
  return create(NodeSchema, { id: "a", type: "inject", ...init });
}

export function sets(object: Record<string, Record<string, string>>): Map<string, Map<string, string>> {
  return new Map(Object.entries(object).map(([id, set]) => [id, new Map(Object.entries(set))]));
}

/** Returns the reason and the message of the FlowgateError that `run` throws. */
export function failure(run: () => unknown): string {
  try {
    run();
  } catch (error) {
    return describe(error);
  }
  throw new Error("no error was thrown");
}

export function describe(error: unknown): string {
  if (error instanceof FlowgateError) {
    return `${error.reason} ${error.message}`;
  }
  throw error;
}
