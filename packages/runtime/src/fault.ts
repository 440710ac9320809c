import { isFields } from "@flowgate/base/fields";
import { type NodeRef, type ReadText, parseNodeRef } from "./node-events.ts";

/** The node that has ended the runtime process, as far as that is known. */
export type Fault = {
  readonly node: NodeRef;
  /** In the code of a function node, from 1; undefined if it is not known. */
  readonly line?: number | undefined;
  readonly column?: number | undefined;
  /** True if it was executing code then. If not, it is the node that has received a message last. */
  readonly isCertain: boolean;
};

/** Undefined if it is not valid: flows can write it. */
export function parseFault(value: unknown, read: ReadText): Fault | undefined {
  if (!isFields(value) || !isFields(value["node"])) {
    return undefined;
  }
  const { node, line, column, isCertain } = value;
  const { nodeId, ...others } = parseNodeRef(node, read);
  return nodeId === undefined
    ? undefined
    : {
        node: { nodeId, ...others },
        ...(isPlace(line) && { line }),
        ...(isPlace(column) && { column }),
        isCertain: isCertain === true,
      };
}

function isPlace(value: unknown): value is number {
  return typeof value === "number" && Number.isSafeInteger(value) && value > 0 && value < 2 ** 31;
}

/** The node as an operator finds it in the editor. */
export function describeFault({ node, line, isCertain }: Fault): string {
  const { nodeType = "node", nodeName, flowLabel, flowId } = node;
  const flow = flowLabel ?? flowId;
  const id = quote(node.nodeId);
  const type = /^[\w ./@:-]+$/.test(nodeType) ? nodeType : quote(nodeType);
  const place = [
    nodeName === undefined ? `${type} ${id}` : `${type} ${JSON.stringify(nodeName)} (${id})`,
    ...(flow === undefined ? [] : [`flow ${JSON.stringify(flow)}`]),
    ...(line === undefined ? [] : [`line ${line}`]),
  ].join(", ");
  return isCertain ? place : `the last active node was ${place}`;
}

/** Flows can have any text there. */
function quote(text: string): string {
  return /^[\w./@:-]+$/.test(text) ? text : JSON.stringify(text);
}
