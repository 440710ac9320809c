import type { HandlerContext, ServiceImpl } from "@connectrpc/connect";
import type { FlowsService, GetFlowsResponse } from "../../../gen/flowgate/v1/flows_pb.ts";
import { callerOf } from "../../auth/origin.ts";
import type { ObservedDeployer } from "../../deployments/observed-deployer.ts";
import type { Decrypt } from "../../flows/credentials.ts";
import type { Revision } from "../../store/revision.ts";
import { readDeploymentCall } from "../deployment-call.ts";
import { findRevision } from "./find-revision.ts";
import { planFlows, type PlanFlowsOptions } from "./plan-flows.ts";
import { toGetFlowsResponse, toSetFlowsResponse } from "./responses.ts";
import { type RestoreOptions, undoChange } from "./restore.ts";
import { toChange } from "./set-flows.ts";
import { singleFlowMethods } from "./single-flow.ts";

export type FlowsServiceOptions = PlanFlowsOptions &
  RestoreOptions & {
    readonly deployer: ObservedDeployer;
    readonly decrypt: Decrypt;
  };

export function flowsService({
  store,
  deployer,
  prepare,
  decrypt,
  analysis,
  runtime,
  cluster,
}: FlowsServiceOptions): ServiceImpl<typeof FlowsService> {
  const responses = new WeakMap<Revision, GetFlowsResponse>();

  function respond(revision: Revision): GetFlowsResponse {
    let response = responses.get(revision);
    if (response === undefined) {
      response = toGetFlowsResponse(revision);
      responses.set(revision, response);
    }
    return response;
  }

  async function getEarlier(rev: string, context: HandlerContext): Promise<GetFlowsResponse> {
    const revision = await findRevision(store, rev, context);
    // A revision never changes. Not for shared caches, since reading it requires a permission.
    context.responseHeader.set("cache-control", "private, max-age=31536000, immutable");
    return toGetFlowsResponse(revision);
  }

  return {
    getFlows(request, context) {
      return request.rev === "" ? respond(store.active()) : getEarlier(request.rev, context);
    },

    async setFlows(request, context) {
      const startMs = performance.now();
      const active = store.active();
      const prepared = await prepare(request, active, context, callerOf(context));
      const call = { ...readDeploymentCall(prepared.fields, prepared.rev, context), startMs };
      return toSetFlowsResponse(
        prepared.type === "reload"
          ? await deployer.reload(call)
          : await deployer.deploy(toChange(prepared, active.credentials, decrypt), call),
      );
    },

    planFlows: (request, context) => planFlows(request, context, { store, prepare, analysis, runtime, cluster }),

    async undoFlows(request, context) {
      const change = undoChange(request.rev, request.deploymentType, context, { store, analysis });
      return toSetFlowsResponse(await deployer.deploy(change, readDeploymentCall(request, request.rev, context)));
    },

    ...singleFlowMethods({ store, deployer, decrypt }),
  };
}
