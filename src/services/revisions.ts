import { create } from "@bufbuild/protobuf";
import type { HandlerContext, ServiceImpl } from "@connectrpc/connect";
import {
  DeploymentOutcome,
  DeploymentType as DeploymentTypeMessage,
  FlowModuleSchema,
  RevisionSchema,
} from "../../gen/flowgate/v1/flows_pb.ts";
import {
  type DiffRevisionRequest,
  type DiffRevisionResponse,
  DiffRevisionResponseSchema,
  type GetRevisionRequest,
  type ListRevisionsRequest,
  RevisionView,
  type RevisionsService,
} from "../../gen/flowgate/v1/revisions_pb.ts";
import type { Approvals } from "../auth/approvals.ts";
import { originOf, callerOf } from "../auth/caller.ts";
import type { Deployer } from "../deployments/deployer.ts";
import type { Change, RevisionContent } from "../deployments/deployment.ts";
import type { OutcomeRecorder } from "../deployments/outcome-recorder.ts";
import { outcomes, toRevision } from "../deployments/revision-message.ts";
import { FlowgateError } from "@flowgate/flows/errors";
import type { Analysis } from "../deployments/analysis/analysis.ts";
import type { DiffCall } from "../deployments/analysis/messages.ts";
import { type DeploymentType, parseDocument, type Violation, invalidFlows } from "@flowgate/flows";
import { parseDeploymentType } from "../deployments/messages/deployment-type.ts";
import type { Modules } from "@flowgate/runtime/modules";
import type { AuditRecord } from "../store/audit-store.ts";
import type { FlowStore, RevisionFilter } from "../store/flow-store.ts";
import type { ModuleStore } from "../store/module-store.ts";
import { type Revision, type RevisionOutcome, type RevisionState, outcomeStates } from "../store/revision.ts";
import { maxMessageChars, parseMessage, readDeploymentCall } from "./deployment-request.ts";
import { findKnownModules } from "./known-modules.ts";
import { formatPageToken, parsePageToken, readPageSize, readTimestampMs } from "./lists.ts";
import {
  analyzedResponse,
  revisionNotFound,
  toSetFlowsResponse,
  findRevision,
  responseWithFlows,
  retainingMemory,
} from "./responses.ts";

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
    const response = create(RevisionSchema, {
      ...toRevision(entry, activeRev()),
      modules: needed.map(({ name, version, integrity }) =>
        create(FlowModuleSchema, { name, version, ...(integrity !== undefined && { integrity }) }),
      ),
    });
    return responseWithFlows(RevisionSchema, response, revision.flows, { context, analysis });
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
      request.deploymentType === DeploymentTypeMessage.UNSPECIFIED
        ? undefined
        : parseDeploymentType(request.deploymentType),
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
  readonly analysis: Pick<Analysis, "diff" | "encode">;
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
  return { type, missingTypes, isRunning: before !== "stopped" };
}

export type RestoreOptions = {
  readonly store: Pick<FlowStore, "active" | "find" | "findEntry">;
  readonly analysis: Pick<Analysis, "validate">;
};

type RestoreContext = Pick<HandlerContext, "values" | "signal">;

/** Makes the content of an earlier revision active again. */
export function restoreChange(
  rev: string,
  deploymentType: DeploymentType,
  context: RestoreContext,
  options: RestoreOptions,
): Change {
  return {
    cause: "restore",
    deploymentType,
    async apply() {
      const content = await readRestorable(rev, context, options);
      return { ...content, message: await nameRevision("Restore", rev, options) };
    },
    identity: () => [rev],
  };
}

/**
 * Makes the content of the active revision's parent active again. `rev` is the revision that the request names. The
 * type defaults to the type of the undone deployment.
 */
export function undoChange(
  rev: string | undefined,
  requestedType: DeploymentTypeMessage,
  context: RestoreContext,
  options: RestoreOptions,
): Change {
  const deploymentType = parseTypeWithoutReload(requestedType);
  const isDefault = requestedType === DeploymentTypeMessage.UNSPECIFIED;
  return {
    cause: "undo",
    deploymentType,
    async apply({ rev: undone, cause, parent, deploymentType: undoneType }) {
      // Its parent has failed.
      if (cause === "automatic_undo") {
        throw nothingToUndo("the last deployment was undone automatically: restore a revision by its rev instead");
      }
      if (parent === undefined) {
        throw nothingToUndo("the active revision is the first one");
      }
      const restorable = await readRestorable(parent, context, options);
      const content = { ...restorable, message: await nameRevision("Undo", undone, options) };
      return isDefault ? { ...content, deploymentType: undoneType } : content;
    },
    identity: () => (isDefault ? [rev ?? "", "default"] : [rev ?? ""]),
  };
}

/** The beginning of a rev that messages have, as tables of the command line do. */
const shownRevChars = 8;

/** A message such as `Undo of 4fGx0aQz: new invoices`, with the message of that revision. */
async function nameRevision(
  action: "Undo" | "Restore",
  rev: string,
  { store }: Pick<RestoreOptions, "store">,
): Promise<string> {
  const message = (await store.findEntry(rev))?.message;
  const text = `${action} of ${rev.slice(0, shownRevChars)}${message === undefined ? "" : `: ${message}`}`;
  // A cut can split a character in two.
  return text.slice(0, maxMessageChars).toWellFormed();
}

function nothingToUndo(message: string): FlowgateError {
  return new FlowgateError("nothing_to_undo", message);
}

/** A reload makes no revision. */
export function parseTypeWithoutReload(value: DeploymentTypeMessage): DeploymentType {
  const type = parseDeploymentType(value);
  if (type === "reload") {
    throw reloadWithoutFlows();
  }
  return type;
}

export function reloadWithoutFlows(): FlowgateError {
  return new FlowgateError(
    "invalid_deployment_type",
    "deployment_type: must be full, nodes or flows, since reload deploys no flows",
  );
}

async function readRestorable(
  rev: string,
  context: RestoreContext,
  { store, analysis }: RestoreOptions,
): Promise<RevisionContent> {
  const { flows, credentials } = await findRevision(store, rev, context);
  const { violation } = await retainingMemory(context, () =>
    analysis.validate({ flows, credentials }, callerOf(context)),
  );
  if (violation !== undefined) {
    throw notRestorable(rev, violation);
  }
  return { flows, credentials, restoredRev: rev };
}

/** The flow runtime can't use a revision that an earlier version of the service accepted. */
function notRestorable(rev: string, { path, message }: Violation): FlowgateError {
  const remedy = `the revision ${JSON.stringify(rev)} is older than this rule: read it, correct its flows and deploy them`;
  return invalidFlows({ path, message: `${message}; ${remedy}` });
}
