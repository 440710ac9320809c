import { randomBytes } from "node:crypto";
import { toBinary } from "@bufbuild/protobuf";
import type { HandlerContext, ServiceImpl } from "@connectrpc/connect";
import {
  type DeleteFlowRequest,
  DeploymentType as DeploymentTypeMessage,
  type Flow,
  FlowSchema,
  type FlowsService,
} from "../../gen/flowgate/v1/flows_pb.ts";
import type { Approvals } from "../auth/approvals.ts";
import type { Deployed, Deployer } from "../deployments/deployer.ts";
import type { Change } from "../deployments/deployment.ts";
import { FlowgateError } from "../errors.ts";
import type { DeploymentType, FlowNode } from "../flows/configuration.ts";
import { type Decrypt, mergeCredentials } from "../flows/credentials.ts";
import { findTypesOf, formatDocument } from "../flows/document.ts";
import { type FlowParts, findFlow, findTab, nodesOf, parseFlow, replaceNodes, toFlow } from "../flows/single-flow.ts";
import { type ParsedFlows, globalFlowId } from "../flows/parse-flows.ts";
import type { DeploymentFields } from "../flows/preparation/prepare-deployment.ts";
import { invalidFlows, quoteInput } from "../flows/violation.ts";
import type { FlowStore } from "../store/flow-store.ts";
import { readDeploymentCall } from "./deployment-request.ts";
import { revisionNotFound, toSetFlowsResponse } from "./responses.ts";
import { parseTypeWithoutReload } from "./revisions.ts";

export type SingleFlowOptions = {
  readonly store: FlowStore;
  readonly deployer: Deployer;
  readonly decrypt: Decrypt;
  readonly approvals: Approvals;
};

type SingleFlowMethods = Pick<
  ServiceImpl<typeof FlowsService>,
  "getFlow" | "createFlow" | "updateFlow" | "deleteFlow" | "enableFlow" | "disableFlow"
>;

/** The fields that all changes of a flow have. */
type ChangeRequest = DeploymentFields &
  Pick<DeleteFlowRequest, "deploymentType"> & { readonly rev?: string | undefined };

type ToChange = (options: FlowChangeOptions) => Change;

/** The methods of the service that read or change one flow. */
export function singleFlowMethods({ store, deployer, decrypt, approvals }: SingleFlowOptions): SingleFlowMethods {
  function deploy(request: ChangeRequest, context: HandlerContext, toChange: ToChange): Promise<Deployed> {
    const { deploymentType, rev } = request;
    const change = toChange({ deploymentType: parseFlowType(deploymentType), rev, decrypt });
    return deployer.deploy(change, readDeploymentCall(request, rev, context, approvals));
  }

  /** Deploys a change of an existing flow. */
  async function change(request: ChangeRequest & { readonly id: string }, context: HandlerContext, toChange: ToChange) {
    return { id: request.id, ...toSetFlowsResponse(await deploy(request, context, toChange)) };
  }

  /** A repeated request did not create the flow itself, hence its id is read from the revision. New flows are appended. */
  async function createdId({ revision: { rev } }: Deployed): Promise<string> {
    const revision = await store.find(rev);
    const tab = revision?.flows.nodes.findLast(({ type }) => type === "tab");
    if (tab === undefined) {
      throw revisionNotFound(rev);
    }
    return tab.id;
  }

  return {
    getFlow({ id }) {
      const { flows, rev } = store.active();
      return toFlow(id, requireFlow(flows.nodes, id), rev);
    },

    async createFlow(request, context) {
      const flow = requireFlowMessage(request.flow);
      const deployed = await deploy(request, context, (options) => createFlowChange(flow, options));
      return { id: await createdId(deployed), ...toSetFlowsResponse(deployed) };
    },

    updateFlow(request, context) {
      const flow = requireFlowMessage(request.flow);
      assertSameId(request.id, flow);
      const rev = expectedRev(request.rev, flow);
      return change({ ...request, rev }, context, (options) => updateFlowChange(request.id, flow, options));
    },

    deleteFlow: (request, context) => change(request, context, (options) => deleteFlowChange(request.id, options)),

    enableFlow: (request, context) =>
      change(request, context, (options) => disableFlowChange(request.id, false, options)),

    disableFlow: (request, context) =>
      change(request, context, (options) => disableFlowChange(request.id, true, options)),
  };
}

/** The type of Node-RED's own API for single flows is the default. */
function parseFlowType(value: DeploymentTypeMessage): FlowChangeOptions["deploymentType"] {
  return value === DeploymentTypeMessage.UNSPECIFIED ? "flows" : parseTypeWithoutReload(value);
}

function requireFlowMessage(flow: Flow | undefined): Flow {
  if (flow === undefined) {
    throw invalidFlows({ path: ["flow"], message: "is missing" });
  }
  return flow;
}

function assertSameId(id: string, flow: Flow): void {
  if (flow.id !== "" && flow.id !== id) {
    throw invalidFlows({
      path: ["flow", "id"],
      message: `must be ${quoteInput(id)}, the id of the flow in the request, or absent`,
    });
  }
}

/** The `rev` of the request, or else that of the flow as it was read. */
function expectedRev(rev: string | undefined, flow: Flow): string | undefined {
  if (rev !== undefined && flow.rev !== "" && flow.rev !== rev) {
    throw new FlowgateError("invalid_argument", "flow.rev: must be the `rev` of the request, or absent");
  }
  return rev ?? (flow.rev === "" ? undefined : flow.rev);
}

/** What the changes of a single flow have in common. */
type FlowChangeOptions = {
  readonly deploymentType: DeploymentType;
  /** The revision that the request names. */
  readonly rev: string | undefined;
  readonly decrypt: Decrypt;
};

/** Nodes of the active flows, and the ones that replace them. */
type Edit = ParsedFlows & { readonly replaced: readonly FlowNode[] };

/** Adds a flow under a new id. */
function createFlowChange(flow: Flow, options: FlowChangeOptions): Change {
  // As Node-RED generates them.
  const id = randomBytes(8).toString("hex");
  return flowChange(
    (document) => ({ replaced: [], ...parseFlow(flow, { id, replaced: undefined, others: document }) }),
    () => ["create", toBinary(FlowSchema, flow)],
    options,
  );
}

/** Replaces a flow with all of its nodes. */
function updateFlowChange(id: string, flow: Flow, options: FlowChangeOptions): Change {
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
function deleteFlowChange(id: string, options: FlowChangeOptions): Change {
  assertTab(id);
  return flowChange(
    (document) => ({ ...noNodes, replaced: nodesOf(requireFlow(document, id)) }),
    () => ["delete", id],
    options,
  );
}

/** Enables or disables a tab. */
function disableFlowChange(id: string, disabled: boolean, options: FlowChangeOptions): Change {
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
      const credentials = mergeCredentials({
        ...submitted,
        findTypes: (ids) => findTypesOf(flows, ids),
        current,
        decrypt,
      });
      return { flows: await formatDocument(flows), credentials, submitted };
    },
    identity: () => [rev ?? "", ...identity()],
  };
}

/** Throws `not_found`. */
function requireFlow(document: readonly FlowNode[], id: string): FlowParts {
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
