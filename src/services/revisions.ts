import { create } from "@bufbuild/protobuf";
import type { HandlerContext, ServiceImpl } from "@connectrpc/connect";
import { DeploymentOutcome, DeploymentType, FlowModuleSchema, RevisionSchema } from "../../gen/flowgate/v1/flows_pb.ts";
import {
  type DiffRevisionRequest,
  type DiffRevisionResponse,
  DiffRevisionResponseSchema,
  type GetRevisionRequest,
  type ListRevisionsRequest,
  RevisionView,
  type RevisionsService,
} from "../../gen/flowgate/v1/revisions_pb.ts";
import type { Analysis } from "../flows/analysis/analysis.ts";
import type { DiffCall } from "../flows/analysis/messages.ts";
import type { Approvals } from "../auth/approvals.ts";
import { callerOf, originOf } from "../auth/caller.ts";
import type { Deployer } from "../deployments/deployer.ts";
import type { OutcomeRecorder } from "../deployments/outcome-recorder.ts";
import { outcomes, toRevision } from "../deployments/revision-message.ts";
import { FlowgateError } from "../errors.ts";
import { parseDeploymentType } from "../flows/configuration.ts";
import { parseDocument } from "../flows/document.ts";
import { toNodes } from "../flows/parse-flows.ts";
import type { Modules } from "../modules/modules.ts";
import type { AuditRecord } from "../store/audit-store.ts";
import type { FlowStore, RevisionFilter } from "../store/flow-store.ts";
import type { ModuleStore } from "../store/module-store.ts";
import { type Revision, type RevisionOutcome, type RevisionState, outcomeStates } from "../store/revision.ts";
import { parseMessage, readDeploymentCall } from "./deployment-request.ts";
import { findKnownModules } from "./known-modules.ts";
import { formatPageToken, parsePageToken, readPageSize, readTimestampMs } from "./lists.ts";
import { analyzedResponse, findRevision, revisionNotFound, toSetFlowsResponse } from "./responses.ts";
import { type RestoreOptions, parseTypeWithoutReload, restoreChange } from "./restore.ts";

export type RevisionsServiceOptions = DiffRevisionOptions &
  RestoreOptions & {
    readonly store: FlowStore;
    readonly deployer: Deployer;
    readonly approvals: Approvals;
    readonly moduleStore: Pick<ModuleStore, "find">;
    /** The number of revisions that can be pinned. */
    readonly maxPinned: number;
    /** Reads wait until the outcomes are recorded that the caller may know already from the response to a deployment. */
    readonly outcomes: Pick<OutcomeRecorder, "flush">;
  };

export function revisionsService({
  store,
  moduleStore,
  modules,
  deployer,
  approvals,
  outcomes,
  analysis,
  maxPinned,
}: RevisionsServiceOptions): ServiceImpl<typeof RevisionsService> {
  const activeRev = (): string => store.active().rev;

  async function getRevision({ rev, view }: GetRevisionRequest, context: HandlerContext) {
    await outcomes.flush();
    const entry = await store.findEntry(rev);
    const revision = view === RevisionView.FULL ? await findRevision(store, rev, context) : undefined;
    if (entry === undefined) {
      throw revisionNotFound(rev);
    }
    if (revision === undefined) {
      return create(RevisionSchema, toRevision(entry, activeRev()));
    }
    const needed = (await moduleStore.find(rev)) ?? [];
    return create(RevisionSchema, {
      ...toRevision(entry, activeRev()),
      flows: toNodes(revision.flows.nodes),
      modules: needed.map(({ name, version, integrity }) =>
        create(FlowModuleSchema, { name, version, ...(integrity !== undefined && { integrity }) }),
      ),
    });
  }

  return {
    async listRevisions(request) {
      await outcomes.flush();
      const { revisions, next } = await store.list({
        limit: readPageSize(request.pageSize),
        before: parsePageToken(request.pageToken),
        filter: parseFilter(request),
      });
      return {
        revisions: revisions.map((entry) => toRevision(entry, activeRev())),
        nextPageToken: formatPageToken(next),
      };
    },

    getRevision,

    async updateRevision({ rev, message, pinned }, context) {
      const change: Partial<RevisionState> = {
        ...(message !== undefined && { message: parseMessage(message) }),
        ...(pinned !== undefined && { pinned }),
      };
      const changed = Object.keys(change).join(", ");
      const audit: AuditRecord = { kind: "revision_updated", origin: originOf(context), subject: rev, detail: changed };
      const entry = changed === "" ? await store.findEntry(rev) : await store.update(rev, change, audit, maxPinned);
      if (entry === undefined) {
        throw revisionNotFound(rev);
      }
      return create(RevisionSchema, toRevision(entry, activeRev()));
    },

    async diffRevision(request, context) {
      await outcomes.flush();
      return diffRevision(request, context, { store, moduleStore, modules, analysis });
    },

    async restoreRevision(request, context) {
      const type = parseTypeWithoutReload(request.deploymentType);
      const change = restoreChange(request.rev, type, context, { store, analysis });
      const call = readDeploymentCall(request, request.activeRev, context, approvals);
      return toSetFlowsResponse(await deployer.deploy(change, call));
    },
  };
}

function parseFilter(request: ListRevisionsRequest): RevisionFilter {
  return {
    by: request.user === "" ? undefined : request.user,
    deploymentType:
      request.deploymentType === DeploymentType.UNSPECIFIED ? undefined : parseDeploymentType(request.deploymentType),
    outcome: parseOutcome(request.outcome),
    pinned: request.pinned,
    fromMs: readTimestampMs("startTime", request.startTime),
    untilMs: readTimestampMs("endTime", request.endTime),
  };
}

function parseOutcome(value: DeploymentOutcome): RevisionOutcome["state"] | undefined {
  if (value === DeploymentOutcome.UNSPECIFIED) {
    return undefined;
  }
  const state = outcomeStates.find((each) => outcomes[each] === value);
  if (state === undefined) {
    throw new FlowgateError("invalid_argument", `outcome: revisions have one of ${outcomeStates.join(", ")}`);
  }
  return state;
}

export type DiffRevisionOptions = {
  readonly store: Pick<FlowStore, "active" | "find" | "findEntry">;
  readonly analysis: Pick<Analysis, "diff">;
  readonly moduleStore: Pick<ModuleStore, "find">;
  readonly modules: Pick<Modules, "list" | "compare">;
};

const noFlows: Pick<Revision, "flows" | "credentials"> = {
  flows: parseDocument(Buffer.from("[]")),
  credentials: new Map(),
};

/** Compares a revision with another one, by default with its parent. */
export async function diffRevision(
  { rev, base: requestedBase, restarts }: DiffRevisionRequest,
  context: HandlerContext,
  { store, moduleStore, modules, analysis }: DiffRevisionOptions,
): Promise<DiffRevisionResponse> {
  if (restarts && requestedBase !== "") {
    throw new FlowgateError("invalid_argument", "restarts: can't be set with a base, since it is about the parent");
  }
  const find = (name: string): Promise<Revision> => findRevision(store, name, context);
  const target = await find(rev);
  const baseRev = requestedBase === "" ? target.parent : requestedBase;
  const base = baseRev === undefined ? noFlows : await find(baseRev);
  const deployment = restarts ? await recallDeployment(target, store) : undefined;
  const known = await findKnownModules(modules, (await moduleStore.find(rev)) ?? []);
  const call = { base, target, deployment, modules: known, names: { base: baseRev ?? "", rev } };
  return analyzedResponse(DiffRevisionResponseSchema, context, (format) =>
    analysis.diff({ ...call, format }, callerOf(context)),
  );
}

/** The deployment of a revision, as far as the outcomes of the revision and its parent show it. */
async function recallDeployment(
  { rev, parent = "", deploymentType: type }: Revision,
  store: DiffRevisionOptions["store"],
): Promise<DiffCall["deployment"]> {
  const missingTypes = (await store.findEntry(rev))?.outcome.missingTypes ?? [];
  const before = (await store.findEntry(parent))?.outcome.state;
  return { type, missingTypes, isRunning: before !== "crashed" && before !== "stopped" };
}
