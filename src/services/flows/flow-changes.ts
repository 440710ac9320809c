import { randomBytes } from "node:crypto";
import { toBinary } from "@bufbuild/protobuf";
import { type Flow, FlowSchema } from "../../../gen/flowgate/v1/flows_pb.ts";
import type { Change } from "../../deployments/change.ts";
import { FlowgateError } from "../../errors.ts";
import type { DeploymentType, FlowNode } from "../../flows/configuration.ts";
import { type Decrypt, mergeCredentials } from "../../flows/credentials.ts";
import { formatDocument } from "../../flows/document.ts";
import { findFlow, findTab, type FlowParts, globalFlowId, nodesOf } from "../../flows/flow-parts.ts";
import { parseFlow } from "../../flows/parse-flow.ts";
import type { ParsedFlows } from "../../flows/parse-flows.ts";
import { replaceNodes } from "../../flows/replace-nodes.ts";
import { quoteInput } from "../../flows/violation.ts";

/** What the changes of a single flow have in common. */
export type FlowChangeOptions = {
  readonly deploymentType: DeploymentType;
  /** The revision that the request names. */
  readonly rev: string | undefined;
  readonly decrypt: Decrypt;
};

/** Nodes of the active flows, and the ones that replace them. */
type Edit = ParsedFlows & { readonly replaced: readonly FlowNode[] };

/** Adds a flow under a new id. */
export function createFlowChange(flow: Flow, options: FlowChangeOptions): Change {
  // As Node-RED generates them.
  const id = randomBytes(8).toString("hex");
  return flowChange(
    (document) => ({ replaced: [], ...parseFlow(flow, { id, replaced: undefined, others: document }) }),
    () => ["create", toBinary(FlowSchema, flow)],
    options,
  );
}

/** Replaces a flow with all of its nodes. */
export function updateFlowChange(id: string, flow: Flow, options: FlowChangeOptions): Change {
  return flowChange(
    (document) => {
      const parts = requireFlow(document, id);
      const replaced = nodesOf(parts);
      const members = new Set(replaced);
      const others = document.filter((node) => !members.has(node));
      return { replaced, ...parseFlow(flow, { id, replaced: parts, others }) };
    },
    () => ["update", id, toBinary(FlowSchema, flow)],
    options,
  );
}

/** Deletes a tab with all of its nodes. */
export function deleteFlowChange(id: string, options: FlowChangeOptions): Change {
  assertTab(id);
  return flowChange(
    (document) => ({ ...noNodes, replaced: nodesOf(requireFlow(document, id)) }),
    () => ["delete", id],
    options,
  );
}

/** Enables or disables a tab. */
export function disableFlowChange(id: string, disabled: boolean, options: FlowChangeOptions): Change {
  assertTab(id);
  return flowChange(
    (document) => {
      const tab = findTab(document, id) ?? throwNotFound(id);
      return { ...noNodes, replaced: [tab], flows: [{ ...tab, disabled }] };
    },
    () => [disabled ? "disable" : "enable", id],
    options,
  );
}

const noNodes: ParsedFlows = { flows: [], inline: new Map() };

function flowChange(
  edit: (document: readonly FlowNode[]) => Edit,
  identity: Change["identity"],
  { deploymentType, rev, decrypt }: FlowChangeOptions,
): Change {
  return {
    cause: "flow",
    deploymentType,
    async apply(active) {
      const { replaced, flows: replacements, inline } = edit(active.flows.nodes);
      const flows = replaceNodes(active.flows.nodes, new Set(replaced), replacements);
      const { credentials: current } = active;
      const submitted = { inline, topLevel: undefined };
      const credentials = mergeCredentials({ ...submitted, flows, current, decrypt });
      return { flows: await formatDocument(flows), credentials, submitted };
    },
    identity: () => [rev ?? "", ...identity()],
  };
}

/** Throws `not_found`. */
export function requireFlow(document: readonly FlowNode[], id: string): FlowParts {
  return findFlow(document, id) ?? throwNotFound(id);
}

function throwNotFound(id: string): never {
  throw new FlowgateError("not_found", `there is no flow ${quoteInput(id)}: no tab has this id`);
}

function assertTab(id: string): void {
  if (id === globalFlowId) {
    throw new FlowgateError(
      "invalid_argument",
      'id: the flow "global" can be read and replaced only, since it has no tab',
    );
  }
}
