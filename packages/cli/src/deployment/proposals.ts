import { Code } from "@connectrpc/connect";
import {
  ContainerKind,
  DeploymentTypeSchema,
  ListProposalsResponseSchema,
  PlanFlowsResponseSchema,
  type Proposal,
  ProposalSchema,
  ProposalState,
  ProposalStateSchema,
} from "@flowgate/client";
import type { ClientContext } from "../client/action.ts";
import { type ClientSession, unless } from "../client/session.ts";
import { finishDeployment } from "./outcome.ts";
import { showPreview } from "./plan.ts";
import { CliFailure, UsageFailure } from "../failure.ts";
import { stylePlan } from "../output/changes.ts";
import { fetchList, findByBeginning, printList } from "../output/list.ts";
import type { Cell, Output, Style, Styled } from "../output/output.ts";
import { askConfirmation, canAsk } from "../output/prompts.ts";
import { describeCaller, parseEnum, formatEnum, formatTime, shortRev } from "../output/values.ts";

export type ProposalListFlags = { readonly limit: number; readonly state?: string; readonly user?: string };

export async function listProposals({ session, output }: ClientContext, flags: ProposalListFlags): Promise<void> {
  const { limit, state = "", user = "" } = flags;
  const filter = { state: parseEnum(ProposalStateSchema, state), user };
  await printList(output, {
    schema: ListProposalsResponseSchema,
    limit,
    fetchPage: (page) => session.proposals.listProposals({ ...filter, ...page }),
    itemsOf: ({ proposals }) => proposals,
    none: "There are no such proposals.",
    head: ["ID", "STATE", "PROPOSED", "BY", "EXPIRES", "CHANGES", "MESSAGE"],
    toRow,
  });
}

function toRow(proposal: Proposal): Cell[] {
  const { id, createTime, expireTime, message } = proposal;
  const expires = proposal.state === ProposalState.OPEN ? formatTime(expireTime) : "";
  return [
    id,
    styleState(proposal),
    formatTime(createTime),
    describeCaller(proposal),
    expires,
    describeChanges(proposal),
    message,
  ];
}

/** Prints a proposal, and what its approval would change and restart. */
export async function showProposal({ session, output }: ClientContext, name: string): Promise<void> {
  const proposal = await findProposal(session, name);
  // The base of an old one may have been removed from the history.
  const plan = await unless(Code.NotFound, session.proposals.planProposal({ id: proposal.id }));
  output.messages(
    {
      proposal: [ProposalSchema, proposal],
      ...(plan !== undefined && { plan: [PlanFlowsResponseSchema, plan] as const }),
    },
    () => [formatProposal(proposal, output), ...(plan === undefined ? [] : ["", stylePlan(plan, output)])].join("\n"),
  );
}

export type ApproveFlags = { readonly digest?: string; readonly message?: string; readonly yes?: true };

/** Shows a proposal, asks, and approves what was shown; or, without a question, what has this digest. */
export async function approveProposal(context: ClientContext, name: string, flags: ApproveFlags): Promise<void> {
  const { session, output, connection } = context;
  const proposal = await findProposal(session, name);
  const { id } = proposal;
  if (flags.digest === undefined && flags.yes !== true && !canAsk()) {
    throw new UsageFailure(
      "There is no terminal to ask at: name what was reviewed with --digest, which flowgate proposal show prints, or confirm with --yes.",
    );
  }
  if (flags.digest === undefined) {
    const plan = await session.proposals.planProposal({ id });
    showPreview(output, `${formatProposal(proposal, output)}\n\n${stylePlan(plan, output)}\n`);
    if (flags.yes !== true && !(await askConfirmation(`Approve this, and deploy it to ${connection.server}?`))) {
      throw new CliFailure("Nothing was approved.");
    }
  }
  const request = { id, digest: flags.digest ?? proposal.digest, reason: flags.message ?? "" };
  const wait = proposal.wait === undefined ? {} : { wait: proposal.wait };
  await finishDeployment(context, () => session.proposals.approveProposal(request), wait);
}

export async function rejectProposal(
  { session, output }: ClientContext,
  name: string,
  { message = "" }: { readonly message?: string },
): Promise<void> {
  const { id } = await findProposal(session, name);
  const proposal = await session.proposals.rejectProposal({ id, reason: message });
  output.message(ProposalSchema, proposal, () => `Rejected proposal ${id}.`);
}

export async function withdrawProposal(
  { session, output }: ClientContext,
  name: string,
  { message = "" }: { readonly message?: string },
): Promise<void> {
  const { id } = await findProposal(session, name);
  const proposal = await session.proposals.withdrawProposal({ id, reason: message });
  output.message(ProposalSchema, proposal, () => `Withdrew proposal ${id}.`);
}

export function formatProposal(proposal: Proposal, output: Output): string {
  const { id, base, createTime, expireTime, closeTime, closedBy, closedByTokenName, rev, wait, maxErrors } = proposal;
  const isOpen = proposal.state === ProposalState.OPEN;
  const closer = describeCaller({ user: closedBy, tokenName: closedByTokenName });
  return [
    output.style("bold", `proposal ${id}`),
    output.fields([
      ["State", styleState(proposal)],
      ["Proposed", formatTime(createTime)],
      ["By", describeCaller(proposal)],
      ["Message", proposal.message],
      ["Changes", describeChanges(proposal)],
      ["Modules", describeModules(proposal)],
      ["Base", shortRev(base)],
      ["Type", formatEnum(DeploymentTypeSchema, proposal.deploymentType)],
      ["Wait", wait === undefined ? "" : `${wait} s, with at most ${maxErrors ?? 0} errors`],
      ["On failure", proposal.onFailure === 0 ? "" : "undo"],
      ["Expires", isOpen ? formatTime(expireTime) : ""],
      ["Closed", closeTime === undefined ? "" : `${formatTime(closeTime)} by ${closer}`],
      ["Reason", proposal.reason],
      ["Revision", rev],
      ["Digest", proposal.digest],
    ]),
  ].join("\n");
}

const maxListed = 5;

/** `Invoices, subflow 4f0c, other nodes` */
function describeChanges({ changes }: Proposal): string {
  if (changes.length === 0) {
    return "modules only";
  }
  const names = changes.slice(0, maxListed).map(({ id, label, kind }) => {
    const name = label || id;
    return name === "" ? "nodes outside of tabs" : kind === ContainerKind.SUBFLOW ? `subflow ${name}` : name;
  });
  const more = changes.length > maxListed ? [`${changes.length - maxListed} more`] : [];
  return [...names, ...more].join(", ");
}

/** `contrib-one 1.0.0, contrib-two` */
function describeModules({ modules }: Proposal): string {
  return modules.map(({ name, version }) => `${name} ${version}`.trimEnd()).join(", ");
}

const stateStyles: Readonly<Record<number, Style>> = {
  [ProposalState.OPEN]: "yellow",
  [ProposalState.APPROVED]: "green",
  [ProposalState.REJECTED]: "red",
};

function styleState({ state }: Proposal): Styled {
  return { style: stateStyles[state] ?? [], text: formatEnum(ProposalStateSchema, state) };
}

/** Finds a proposal by its id, or the beginning of that. */
async function findProposal({ proposals }: ClientSession, name: string): Promise<Proposal> {
  const exact = await unless(Code.NotFound, proposals.getProposal({ id: name }));
  if (exact !== undefined) {
    return exact;
  }
  const all = await fetchList(
    Infinity,
    (page) => proposals.listProposals(page),
    (response) => response.proposals,
  );
  return findByBeginning(all.proposals, name, ({ id }) => id, "proposal", "flowgate proposal list");
}
