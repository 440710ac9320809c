import { randomBytes } from "node:crypto";
import { create } from "@bufbuild/protobuf";
import type { HandlerContext, ServiceImpl } from "@connectrpc/connect";
import {
  type DeleteFlowRequest,
  DeploymentType as DeploymentTypeMessage,
  FlowSchema,
  type FlowsService,
} from "../../gen/flowgate/v1/flows_pb.ts";
import type { Approvals } from "../auth/approvals.ts";
import { callerOf, peerKey } from "../auth/caller.ts";
import type { Deployed, Deployer } from "../deployments/deployer.ts";
import type { Change } from "../deployments/deployment.ts";
import { FlowgateError } from "@flowgate/flows/errors";
import type { Analysis } from "../deployments/analysis/analysis.ts";
import { type DeploymentType, isLong, globalFlowId, invalidFlows, quoteInput } from "@flowgate/flows";
import { requireFlow, toFlow } from "../deployments/messages/single-flow.ts";
import type { FlowEdit } from "../deployments/preparation/edit-flow.ts";
import type { DeploymentFields, FlowRequest } from "../deployments/preparation/prepare-deployment.ts";
import type { Preparation } from "../deployments/preparation/preparation.ts";
import type { FlowStore } from "../store/flow-store.ts";
import type { Revision } from "../store/revision.ts";
import { readDeploymentCall } from "./deployment-request.ts";
import { encodedResponse, retainingMemory, revisionNotFound, toSetFlowsResponse } from "./responses.ts";
import { parseTypeWithoutReload } from "./revisions.ts";

export type SingleFlowOptions = {
  readonly store: FlowStore;
  readonly deployer: Deployer;
  readonly analysis: Pick<Analysis, "encode">;
  readonly preparation: Pick<Preparation, "decodeFlow" | "editFlow" | "findCreated">;
  readonly approvals: Approvals;
};

type SingleFlowMethods = Pick<
  ServiceImpl<typeof FlowsService>,
  "getFlow" | "createFlow" | "updateFlow" | "deleteFlow" | "enableFlow" | "disableFlow"
>;

/** The fields that all changes of a flow have. */
type ChangeRequest = DeploymentFields &
  Pick<DeleteFlowRequest, "deploymentType"> & { readonly rev?: string | undefined };

/** The methods of the service that read or change one flow. */
export function singleFlowMethods({
  store,
  deployer,
  preparation,
  analysis,
  approvals,
}: SingleFlowOptions): SingleFlowMethods {
  function deploy(request: ChangeRequest, context: HandlerContext, edit: FlowEdit): Promise<Deployed> {
    const { deploymentType, rev } = request;
    const change = flowChange(edit, { deploymentType: parseFlowType(deploymentType), rev }, (each, active) =>
      preparation.editFlow(each, active, callerOf(context)),
    );
    return deployer.deploy(change, readDeploymentCall(request, rev, context, approvals));
  }

  async function change(request: ChangeRequest, context: HandlerContext, edit: FlowEdit) {
    return { id: edit.id, ...toSetFlowsResponse(await deploy(request, context, edit)) };
  }

  async function decode(request: FlowRequest, context: HandlerContext) {
    const { fields, flow, ...decoded } = await retainingMemory(context, () =>
      preparation.decodeFlow(request, callerOf(context)),
    );
    if (flow === undefined) {
      throw invalidFlows({ path: ["flow"], message: "is missing" });
    }
    context.values.get(peerKey).documentDecoded?.(flow.bytes.length);
    return { ...fields, ...decoded, flow };
  }

  /** A repeated request did not create the flow itself, hence its id is read from the revision. */
  async function createdId({ revision: { rev } }: Deployed, context: HandlerContext): Promise<string> {
    const revision = await store.find(rev);
    if (revision === undefined) {
      throw revisionNotFound(rev);
    }
    return preparation.findCreated(revision.flows, callerOf(context));
  }

  return {
    async getFlow({ id }, context) {
      const { flows, rev } = store.active();
      if (!isLong(flows)) {
        return toFlow(id, requireFlow(flows.nodes, id), rev);
      }
      const fields = create(FlowSchema, { id, rev });
      const flow = await encodedResponse(FlowSchema, fields, flows, { context, analysis });
      // It is also an entity tag, for which the response must not be decoded.
      return Object.defineProperty(flow, "rev", { enumerable: true, value: rev });
    },

    async createFlow(request, context) {
      const { flow, ...call } = await decode(request, context);
      // As Node-RED generates them.
      const id = randomBytes(8).toString("hex");
      const deployed = await deploy(call, context, { kind: "create", id, flow: flow.bytes });
      const created = deployed.isRepeated === true ? await createdId(deployed, context) : id;
      return { id: created, ...toSetFlowsResponse(deployed) };
    },

    async updateFlow(request, context) {
      const { id, flow, rev, ...call } = await decode(request, context);
      assertSameId(id, flow.id);
      return change({ ...call, rev: expectedRev(rev, flow.rev) }, context, { kind: "update", id, flow: flow.bytes });
    },

    deleteFlow: (request, context) => change(request, context, { kind: "delete", id: toTabId(request.id) }),

    enableFlow: (request, context) =>
      change(request, context, { kind: "disable", id: toTabId(request.id), disabled: false }),

    disableFlow: (request, context) =>
      change(request, context, { kind: "disable", id: toTabId(request.id), disabled: true }),
  };
}

/** The type of Node-RED's own API for single flows is the default. */
function parseFlowType(value: DeploymentTypeMessage): DeploymentType {
  return value === DeploymentTypeMessage.UNSPECIFIED ? "flows" : parseTypeWithoutReload(value);
}

function assertSameId(id: string, flowId: string): void {
  if (flowId !== "" && flowId !== id) {
    throw invalidFlows({
      path: ["flow", "id"],
      message: `must be ${quoteInput(id)}, the id of the flow in the request, or absent`,
    });
  }
}

/** The `rev` of the request, or else the `rev` at which the flow was read. */
function expectedRev(rev: string | undefined, flowRev: string): string | undefined {
  if (rev !== undefined && flowRev !== "" && flowRev !== rev) {
    throw new FlowgateError("invalid_argument", "flow.rev: must be the `rev` of the request, or absent");
  }
  return rev ?? (flowRev === "" ? undefined : flowRev);
}

function flowChange(
  edit: FlowEdit,
  { deploymentType, rev }: { readonly deploymentType: DeploymentType; readonly rev: string | undefined },
  editFlow: (edit: FlowEdit, active: Revision) => ReturnType<Preparation["editFlow"]>,
): Change {
  return {
    cause: "flow",
    deploymentType,
    apply: (active) => editFlow(edit, active),
    identity: () => [rev ?? "", ...identityOf(edit)],
  };
}

/** A new flow has another id in each request. */
function identityOf(edit: FlowEdit): (string | Uint8Array)[] {
  switch (edit.kind) {
    case "create":
      return [edit.kind, edit.flow];
    case "update":
      return [edit.kind, edit.id, edit.flow];
    case "delete":
      return [edit.kind, edit.id];
    case "disable":
      return [edit.disabled ? "disable" : "enable", edit.id];
  }
}

function toTabId(id: string): string {
  if (id === globalFlowId) {
    throw new FlowgateError(
      "invalid_argument",
      'id: the flow "global" can be read and replaced only, since it has no tab',
    );
  }
  return id;
}
