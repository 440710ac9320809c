import { create } from "@bufbuild/protobuf";
import type { HandlerContext, ServiceImpl } from "@connectrpc/connect";
import {
  type FlowsService,
  type GetFlowsResponse,
  GetFlowsResponseSchema,
  type PlanFlowsRequest,
  type PlanFlowsResponse,
  PlanFlowsResponseSchema,
} from "../../gen/flowgate/v1/flows_pb.ts";
import type { Analysis } from "../deployments/analysis/analysis.ts";
import type { Preparation } from "../deployments/preparation/preparation.ts";
import type { Approvals } from "../auth/approvals.ts";
import { callerOf, principalKey } from "../auth/caller.ts";
import { allows } from "../auth/permissions.ts";
import { insufficientScope } from "../auth/errors.ts";
import { tabAccessKey } from "../auth/tab-access.ts";
import type { Deployer } from "../deployments/deployer.ts";
import { conflict } from "../deployments/errors.ts";
import { keepCredentials } from "../deployments/kept-credentials.ts";
import { outcomes } from "../deployments/revision-message.ts";
import type { HealthMonitor } from "../health/monitor.ts";
import type { Decrypt, SubmittedCredentials } from "@flowgate/flows";
import type { RuntimeView } from "@flowgate/flows/compare";
import { type Modules, parseWanted } from "@flowgate/runtime/modules";
import type { Runtime } from "@flowgate/runtime";
import type { FlowStore } from "../store/flow-store.ts";
import { findKnownModules } from "./known-modules.ts";
import { prepareRequest, readDeploymentCall, toChange } from "./deployment-request.ts";
import {
  ActiveFlowsResponses,
  analyzedResponse,
  findRevision,
  responseWithFlows,
  toSetFlowsResponse,
} from "./responses.ts";
import { readConditions } from "./rest.ts";
import { type RestoreOptions, undoChange } from "./revisions.ts";
import { singleFlowMethods } from "./single-flow.ts";

export type FlowsServiceOptions = PlanFlowsOptions &
  RestoreOptions & {
    readonly deployer: Deployer;
    readonly preparation: Pick<Preparation, "prepare" | "decodeFlow" | "editFlow" | "findCreated">;
    readonly decrypt: Decrypt;
    readonly approvals: Approvals;
  };

export function flowsService(options: FlowsServiceOptions): ServiceImpl<typeof FlowsService> {
  const { store, deployer, preparation, analysis, decrypt, approvals } = options;
  const responses = new ActiveFlowsResponses();

  async function getEarlier(rev: string, context: HandlerContext): Promise<GetFlowsResponse> {
    const revision = await findRevision(store, rev, context);
    // A revision never changes. Not for shared caches, since reading it requires a permission.
    context.responseHeader.set("cache-control", "private, max-age=31536000, immutable");
    const response = create(GetFlowsResponseSchema, { rev: revision.rev });
    return responseWithFlows(GetFlowsResponseSchema, response, revision.flows, { context, analysis });
  }

  return {
    getFlows(request, context) {
      return request.rev === ""
        ? responses.respond(store.active(), { context, analysis })
        : getEarlier(request.rev, context);
    },

    async setFlows(request, context) {
      const startMs = performance.now();
      const active = store.active();
      const prepared = await prepareRequest(preparation, request, active, context, callerOf(context));
      const call = { ...readDeploymentCall(prepared.fields, prepared.rev, context, approvals), startMs };
      const { outcome } = prepared;
      const access = context.values.get(tabAccessKey);
      if (outcome.kind === "reload" && access !== undefined) {
        throw access.refuse(["all tabs, whose nodes a reload restarts"]);
      }
      return toSetFlowsResponse(
        outcome.kind === "reload"
          ? await deployer.reload(call)
          : await deployer.deploy(toChange(prepared, outcome, active.credentials, decrypt), call),
      );
    },

    planFlows: (request, context) => planFlows(request, context, options),

    async undoFlows(request, context) {
      const change = undoChange(request.rev, request.deploymentType, context, options);
      const call = readDeploymentCall(request, request.rev, context, approvals);
      return toSetFlowsResponse(await deployer.deploy(change, call));
    },

    ...singleFlowMethods(options),
  };
}

export type PlanFlowsOptions = {
  readonly store: FlowStore;
  readonly preparation: Pick<Preparation, "prepare">;
  readonly analysis: Pick<Analysis, "plan" | "encode">;
  readonly modules: Pick<Modules, "list" | "compare">;
  readonly runtime: Pick<Runtime, "status" | "lastResult" | "nodeTypes">;
  readonly monitor: Pick<HealthMonitor, "outcome">;
};

/** Checks a request as a deployment would, and describes what that would do. */
export async function planFlows(
  request: PlanFlowsRequest,
  context: HandlerContext,
  { store, preparation, analysis, modules, runtime, monitor }: PlanFlowsOptions,
): Promise<PlanFlowsResponse> {
  const active = store.active();
  // One time limit for both steps.
  const caller = { ...callerOf(context), startMs: performance.now() };
  const {
    type,
    rev,
    base,
    modules: named,
    outcome,
  } = await prepareRequest(preparation, request, active, context, caller);
  const conditions = readConditions(rev, context);
  const expectedRev = conditions.evaluate(active);
  if (expectedRev !== undefined && expectedRev !== active.rev) {
    throw conflict(active.rev, conditions, await store.findEntry(active.rev));
  }
  if (outcome.kind === "rejected") {
    throw outcome.error;
  }
  if (outcome.kind === "flows" && hasCredentials(outcome.submitted)) {
    requireWritePermission(context);
  }
  const from = base === "" ? active : await findRevision(store, base, context);
  const { state, message = "" } = monitor.outcome();
  const call = {
    base: from,
    target: outcome.kind === "reload" ? active : await keepCredentials(active, outcome, store),
    current: active,
    rev: active.rev,
    type,
    runtime: { ...viewOf(runtime), modules: await findKnownModules(modules, parseWanted(named)) },
    active: { activeOutcome: outcomes[state], activeOutcomeMessage: message },
  };
  return analyzedResponse(PlanFlowsResponseSchema, context, (format) => analysis.plan({ ...call, format }, caller));
}

function hasCredentials({ inline, topLevel }: SubmittedCredentials): boolean {
  return topLevel !== undefined || inline.values().some((set) => set.size > 0);
}

/** A plan says whether credentials differ from the stored ones, which a reader could use to guess them. */
function requireWritePermission({ values, requestHeader }: HandlerContext): void {
  if (!allows(values.get(principalKey).permissions, "flows.write")) {
    throw insufficientScope("flows.write", requestHeader.has("authorization"));
  }
}

export function viewOf(runtime: PlanFlowsOptions["runtime"]): RuntimeView {
  const { state } = runtime.status();
  const isRunning = state !== "restarting" && state !== "safe" && state !== "stopped";
  return { knownTypes: runtime.nodeTypes(), isRunning };
}
