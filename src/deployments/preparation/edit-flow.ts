import { fromBinary } from "@bufbuild/protobuf";
import { FlowSchema } from "../../../gen/flowgate/v1/flows_pb.ts";
import {
  type CredentialSets,
  type FlowNode,
  type Decrypt,
  mergeCredentials,
  findTypesOf,
  formatDocument,
  type ParsedFlows,
} from "@flowgate/flows";
import { nodesOf, parseFlow, replaceNodes, requireFlow, requireTab } from "../messages/single-flow.ts";
import type { PreparedFlows } from "./prepare-deployment.ts";

/** A change of one flow. `flow` is an encoded `Flow`. */
export type FlowEdit =
  | { readonly kind: "create" | "update"; readonly id: string; readonly flow: Uint8Array }
  | { readonly kind: "delete"; readonly id: string }
  | { readonly kind: "disable"; readonly id: string; readonly disabled: boolean };

/** Changes one flow of a document. Throws `not_found`, or a violation of the new flow. */
export async function editFlow(
  edit: FlowEdit,
  document: readonly FlowNode[],
  current: CredentialSets,
  decrypt: Decrypt,
): Promise<Omit<PreparedFlows, "kind">> {
  const { replaced, flows: replacements, inline } = apply(edit, document);
  const flows = replaceNodes(document, new Set(replaced), replacements);
  const submitted = { inline, topLevel: undefined };
  const credentials = mergeCredentials({ ...submitted, findTypes: (ids) => findTypesOf(flows, ids), current, decrypt });
  return { flows: formatDocument(flows), credentials, submitted };
}

function apply(
  edit: FlowEdit,
  document: readonly FlowNode[],
): ParsedFlows & { readonly replaced: readonly FlowNode[] } {
  const { id } = edit;
  switch (edit.kind) {
    case "create": {
      const flow = fromBinary(FlowSchema, edit.flow);
      return { replaced: [], ...parseFlow(flow, { id, replaced: undefined, others: document }) };
    }
    case "update": {
      const parts = requireFlow(document, id);
      const replaced = nodesOf(parts);
      const members = new Set(replaced);
      const others = document.filter((node) => !members.has(node));
      return { replaced, ...parseFlow(fromBinary(FlowSchema, edit.flow), { id, replaced: parts, others }) };
    }
    case "delete":
      return { ...noNodes, replaced: nodesOf(requireFlow(document, id)) };
    case "disable": {
      const tab = requireTab(document, id);
      return { ...noNodes, replaced: [tab], flows: [{ ...tab, disabled: edit.disabled }] };
    }
  }
}

const noNodes: ParsedFlows = { flows: [], inline: new Map() };

/** Returns the id of the flow that was created last: new ones are appended. */
export function findCreated(document: readonly FlowNode[]): string {
  return document.findLast(({ type }) => type === "tab")?.id ?? "";
}
