import type { HandlerContext, ServiceImpl } from "@connectrpc/connect";
import {
  type DeleteFlowRequest,
  DeploymentType as DeploymentTypeMessage,
  type Flow,
  type FlowsService,
} from "../../../gen/flowgate/v1/flows_pb.ts";
import type { Change } from "../../deployments/change.ts";
import type { Deployed } from "../../deployments/deployer.ts";
import type { ObservedDeployer } from "../../deployments/observed-deployer.ts";
import { FlowgateError } from "../../errors.ts";
import type { Decrypt } from "../../flows/credentials.ts";
import type { DeploymentFields } from "../../flows/prepare.ts";
import { toFlow } from "../../flows/to-flow.ts";
import { invalidFlows, quoteInput } from "../../flows/violation.ts";
import type { FlowStore } from "../../store/flow-store.ts";
import { readDeploymentCall } from "../deployment-call.ts";
import { revisionNotFound } from "./find-revision.ts";
import {
  createFlowChange,
  deleteFlowChange,
  disableFlowChange,
  type FlowChangeOptions,
  requireFlow,
  updateFlowChange,
} from "./flow-changes.ts";
import { toSetFlowsResponse } from "./responses.ts";
import { parseTypeWithoutReload } from "./restore.ts";

export type SingleFlowOptions = {
  readonly store: FlowStore;
  readonly deployer: ObservedDeployer;
  readonly decrypt: Decrypt;
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
export function singleFlowMethods({ store, deployer, decrypt }: SingleFlowOptions): SingleFlowMethods {
  function deploy(request: ChangeRequest, context: HandlerContext, toChange: ToChange): Promise<Deployed> {
    const { deploymentType, rev } = request;
    const change = toChange({ deploymentType: parseFlowType(deploymentType), rev, decrypt });
    return deployer.deploy(change, readDeploymentCall(request, rev, context));
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
      message: `must be ${quoteInput(id)}, as in the path, or absent`,
    });
  }
}

/** The `rev` of the request, or else that of the flow as it was read. */
function expectedRev(rev: string | undefined, flow: Flow): string | undefined {
  if (rev !== undefined && flow.rev !== "" && flow.rev !== rev) {
    throw new FlowgateError("invalid_argument", "flow.rev: must be the revision of the request (If-Match), or absent");
  }
  return rev ?? (flow.rev === "" ? undefined : flow.rev);
}
