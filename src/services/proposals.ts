import { create } from "@bufbuild/protobuf";
import type { HandlerContext, ServiceImpl } from "@connectrpc/connect";
import { DeploymentOutcome, PlanFlowsResponseSchema } from "../../gen/flowgate/v1/flows_pb.ts";
import {
  type ApproveProposalRequest,
  type CreateProposalRequest,
  ProposalSchema,
  ProposalState as ProposalStateMessage,
  type ProposalsService,
  ProposalView,
} from "../../gen/flowgate/v1/proposals_pb.ts";
import { callerOf, originOf } from "../auth/caller.ts";
import { identityRequired, ownProposal } from "../auth/errors.ts";
import { enumWord } from "@flowgate/base/enums";
import { type ChangesOptions, findChanges } from "../deployments/commit.ts";
import type { Deployed, Deployer } from "../deployments/deployer.ts";
import { isMismatch } from "../deployments/deployment.ts";
import { conflict, proposalChanged } from "../deployments/errors.ts";
import { keepCredentials } from "../deployments/kept-credentials.ts";
import {
  createProposalId,
  digestProposal,
  formatSubmitted,
  maskedChange,
  parseSubmitted,
  proposedChange,
} from "../deployments/proposal.ts";
import { outcomes } from "../deployments/revision-message.ts";
import { FlowgateError, type Reason } from "@flowgate/flows/errors";
import type { EventInit } from "../events/events.ts";
import type { Origin } from "../store/audit-store.ts";
import type { ProposalEntry, ProposalLimits, ProposalStore } from "../store/proposal-store.ts";
import type { Revision } from "../store/revision.ts";
import { traceKey } from "../telemetry/trace.ts";
import {
  createAuthorization,
  parseMessage,
  prepareRequest,
  readDeploymentCall,
  requireInstallPermission,
  runtimeTimeoutMs,
  toChange,
} from "./deployment-request.ts";
import { assertOpen, closedError, requireEntry, requireProposal } from "./find-proposal.ts";
import { type FlowsServiceOptions, viewOf } from "./flows.ts";
import { findKnownModules } from "./known-modules.ts";
import { formatPageToken, parsePageToken, readPageSize } from "./lists.ts";
import { toProposal, toProposalEvent } from "./proposal-message.ts";
import { analyzedResponse, findRevision, responseWithFlows, toSetFlowsResponse } from "./responses.ts";
import { reloadWithoutFlows } from "./revisions.ts";

export type ProposalsServiceOptions = Pick<
  FlowsServiceOptions,
  "store" | "preparation" | "decrypt" | "modules" | "runtime" | "monitor"
> & {
  readonly analysis: FlowsServiceOptions["analysis"] & ChangesOptions["analysis"];
  readonly proposals: ProposalStore;
  readonly deployer: Pick<Deployer, "deploy">;
  readonly publish: (event: EventInit) => void;
  readonly lifetimeMs: number;
  readonly limits: ProposalLimits;
};

export function proposalsService(options: ProposalsServiceOptions): ServiceImpl<typeof ProposalsService> {
  const { store, proposals, analysis } = options;

  async function toMessage(entry: ProposalEntry) {
    if (entry.closing === undefined) {
      // Another replica may just have committed or replaced its base.
      await store.catchUp();
    }
    return toProposal(entry, store.active().rev);
  }

  /** Closes a proposal without deploying it. */
  async function end(
    { id, reason }: { readonly id: string; readonly reason: string },
    state: "rejected" | "withdrawn",
    context: HandlerContext,
  ) {
    const closing = { state, reason: parseMessage(reason, "reason") };
    const entry = {
      kind: `proposal_${state}`,
      origin: originOf(context),
      subject: id,
      detail: closing.reason,
    } as const;
    const closed = await proposals.close(id, closing, entry);
    if (closed === undefined) {
      throw closedError(await requireEntry(proposals, id));
    }
    options.publish(toProposalEvent(closed, closed.closing));
    return await toMessage(closed);
  }

  return {
    async listProposals({ pageSize, pageToken, state, user }) {
      // The states depend on it.
      await store.catchUp();
      const { rev } = store.active();
      const { proposals: listed, next } = await proposals.list({
        limit: readPageSize(pageSize),
        before: parsePageToken(pageToken),
        by: user === "" ? undefined : user,
        state: parseState(state, rev),
      });
      return { proposals: listed.map((entry) => toProposal(entry, rev)), nextPageToken: formatPageToken(next) };
    },

    async getProposal({ id, view }, context) {
      if (view !== ProposalView.FULL) {
        return await toMessage(await requireEntry(proposals, id));
      }
      const proposal = await requireProposal(proposals, id, context);
      const response = create(ProposalSchema, await toMessage(proposal));
      return responseWithFlows(ProposalSchema, response, proposal.flows, { context, analysis });
    },

    planProposal: ({ id }, context) => planProposal(id, context, options),

    async createProposal(request, context) {
      return await toMessage(await createProposal(request, context, options));
    },

    async approveProposal(request, context) {
      return toSetFlowsResponse(await approveProposal(request, context, options));
    },

    async rejectProposal(request, context) {
      const { by } = requireUser(context);
      const entry = await requireEntry(proposals, request.id);
      if (entry.by === by) {
        throw ownProposal("reject");
      }
      createAuthorization(context, undefined)?.(entry.changes);
      return end(request, "rejected", context);
    },

    async withdrawProposal(request, context) {
      const { by } = requireUser(context);
      const entry = await requireEntry(proposals, request.id);
      if (entry.by !== by) {
        throw new FlowgateError(
          "foreign_proposal",
          `only its author, ${JSON.stringify(entry.by)}, can withdraw a proposal: reject it instead`,
        );
      }
      return end(request, "withdrawn", context);
    },
  };
}

async function createProposal(
  request: CreateProposalRequest,
  context: HandlerContext,
  { store, proposals, preparation, analysis, decrypt, modules, publish, lifetimeMs, limits }: ProposalsServiceOptions,
): Promise<ProposalEntry> {
  const origin = requireUser(context);
  // Its base is the active revision, which another replica may just have committed.
  await store.catchUp();
  const before = store.active();
  const prepared = await prepareRequest(preparation, request, before, context, callerOf(context));
  const { type: deploymentType, outcome } = prepared;
  const call = readDeploymentCall(prepared.fields, prepared.rev, context, undefined);
  const { conditions, message, waitMs, undoOnFailure, maxErrors } = call;
  if (outcome.kind === "reload") {
    throw reloadWithoutFlows();
  }
  const base = store.active();
  const expectedRev = conditions.evaluate(base) ?? base.rev;
  const mismatch = async (): Promise<FlowgateError> => {
    const { rev } = store.active();
    return conflict(rev, conditions, await store.findEntry(rev));
  };
  if (expectedRev !== base.rev) {
    throw await mismatch();
  }
  if (outcome.kind === "rejected") {
    throw outcome.error;
  }
  const { flows, submitted } = outcome;
  const applied = await toChange(prepared, outcome, before.credentials, decrypt).apply(base);
  const changes = await findChanges(base, await keepCredentials(base, applied, store), call, { store, analysis });
  call.authorize?.(changes);
  const { modules: named = [] } = applied;
  const compared = await modules.compare(named);
  if (changes.length === 0 && compared.every(({ state }) => state === "present")) {
    throw new FlowgateError("nothing_proposed", "the proposed flows are active already: there is nothing to approve");
  }
  const proposed = {
    ...origin,
    id: createProposalId(),
    base: base.rev,
    deploymentType,
    message,
    waitMs,
    undoOnFailure,
    maxErrors,
    changes,
    modules: named,
  };
  const content = { flows, credentials: formatSubmitted(submitted) };
  const digest = digestProposal(proposed, content);
  const entry = { kind: "proposal_created", origin, subject: proposed.id, detail: `of ${base.rev}`, digest } as const;
  try {
    const created = await proposals.create({ ...proposed, ...content, digest, lifetimeMs }, entry, limits);
    publish(toProposalEvent(created));
    return created;
  } catch (error) {
    if (!isMismatch(error)) {
      throw error;
    }
    await store.catchUp();
    throw await mismatch();
  }
}

async function approveProposal(
  { id, digest, reason }: ApproveProposalRequest,
  context: HandlerContext,
  { store, proposals, deployer, decrypt, publish }: ProposalsServiceOptions,
): Promise<Deployed> {
  const startMs = performance.now();
  const origin = requireUser(context);
  if (digest === "") {
    throw new FlowgateError("invalid_argument", "digest: is missing: send the digest of the reviewed proposal");
  }
  const approval = { proposalId: id, digest, origin, reason: parseMessage(reason, "reason") };
  const proposal = await requireProposal(proposals, id, context);
  if (proposal.by === origin.by) {
    throw ownProposal("approve");
  }
  if (digest !== proposal.digest) {
    throw proposalChanged(id, "its digest differs from the request's: review the proposal again before you approve it");
  }
  if (digestProposal(proposal, proposal) !== digest) {
    throw proposalChanged(id, "it was changed in the database and does not match its digest: reject it");
  }
  const timeoutMs = runtimeTimeoutMs(context.timeoutMs());
  const { by, token, address, protocol, requestId } = proposal;
  const change = proposedChange({ ...proposal, submitted: parseSubmitted(proposal.credentials) }, decrypt);
  try {
    await assertOpen(proposal, store);
    const deployed = await deployer.deploy(change, {
      origin: { by, token, address, protocol, requestId },
      approval,
      ...callerOf(context),
      conditions: { isPrecondition: false, evaluate: () => proposal.base },
      authorize: createAuthorization(context, undefined),
      assertMayInstall: () => requireInstallPermission(context),
      message: proposal.message,
      idempotencyKey: undefined,
      waitMs: proposal.waitMs,
      undoOnFailure: proposal.undoOnFailure,
      maxErrors: proposal.maxErrors,
      merge: false,
      untilMs: timeoutMs && startMs + timeoutMs,
      trace: context.values.get(traceKey),
      startMs,
    });
    const { rev } = deployed.revision;
    publish(toProposalEvent(proposal, { ...origin, state: "approved", reason: approval.reason, rev }));
    return deployed;
  } catch (error) {
    // It was closed, or its base replaced, since it was read.
    if (isMismatch(error) || (error instanceof FlowgateError && ended.has(error.reason))) {
      await assertOpen(await requireEntry(proposals, id), store);
    }
    throw error;
  }
}

const ended: ReadonlySet<Reason> = new Set(["proposal_closed", "proposal_stale"]);

async function planProposal(
  id: string,
  context: HandlerContext,
  { store, proposals, analysis, decrypt, modules, runtime, monitor }: ProposalsServiceOptions,
) {
  const proposal = await requireProposal(proposals, id, context);
  const base = await findRevision(store, proposal.base, context);
  const submitted = parseSubmitted(proposal.credentials);
  const applied = await maskedChange({ ...proposal, submitted }, decrypt).apply(base);
  const call = {
    base,
    target: await keepCredentials(base, applied, store),
    current: base,
    rev: base.rev,
    type: proposal.deploymentType,
    runtime: { ...viewOf(runtime), modules: await findKnownModules(modules, proposal.modules) },
    active: describeActive(base, { store, monitor }),
  };
  return analyzedResponse(PlanFlowsResponseSchema, context, (format) =>
    analysis.plan({ ...call, format }, callerOf(context)),
  );
}

/** True if the flows of the base run now. */
function describeActive(base: Revision, { store, monitor }: Pick<ProposalsServiceOptions, "store" | "monitor">) {
  if (base.rev !== store.active().rev) {
    return { activeOutcome: DeploymentOutcome.UNSPECIFIED, activeOutcomeMessage: "" };
  }
  const { state, message = "" } = monitor.outcome();
  return { activeOutcome: outcomes[state], activeOutcomeMessage: message };
}

/** Two people can be told apart only if both are known. */
function requireUser(context: HandlerContext): Origin {
  const origin = originOf(context);
  if (origin.by === undefined) {
    throw identityRequired(
      "Only known users and workloads can propose, approve, reject and withdraw deployments: configure adminAuth or identity, and log in.",
    );
  }
  return origin;
}

function parseState(state: ProposalStateMessage, activeRev: string) {
  const word = enumWord(ProposalStateMessage, state);
  if (word === undefined) {
    throw new FlowgateError(
      "invalid_argument",
      "state: must be one of: open, approved, rejected, withdrawn, stale, expired",
    );
  }
  return word === "unspecified" ? undefined : { is: word, activeRev, nowMs: Date.now() };
}
