import type { HandlerContext } from "@connectrpc/connect";
import { peerKey } from "../auth/caller.ts";
import { proposalClosed, proposalStale } from "../deployments/errors.ts";
import { FlowgateError } from "@flowgate/flows/errors";
import type { FlowStore } from "../store/flow-store.ts";
import { type ProposalContent, type ProposalEntry, type ProposalStore, stateOf } from "../store/proposal-store.ts";

/** Throws `not_found`. */
export async function requireEntry(proposals: ProposalStore, id: string): Promise<ProposalEntry> {
  const entry = await proposals.findEntry(id);
  if (entry === undefined) {
    throw new FlowgateError(
      "not_found",
      `there is no proposal ${JSON.stringify(id.slice(0, 64))}; old ones that were closed are removed`,
    );
  }
  return entry;
}

/** Reads a proposal with its flows, and reserves the memory that these take. */
export async function requireProposal(
  proposals: ProposalStore,
  id: string,
  { values }: Pick<HandlerContext, "values">,
): Promise<ProposalEntry & ProposalContent> {
  const { sizeBytes } = await requireEntry(proposals, id);
  await values.get(peerKey).reserveDocument?.(sizeBytes);
  return (await proposals.find(id)) ?? requireProposal(proposals, id, { values });
}

/** Throws `proposal_closed` or `proposal_stale`. */
export async function assertOpen(proposal: ProposalEntry, store: Pick<FlowStore, "active" | "catchUp">): Promise<void> {
  if (proposal.base !== store.active().rev) {
    // The base may be a revision that another replica has just committed.
    await store.catchUp();
  }
  const { rev } = store.active();
  switch (stateOf(proposal, rev, Date.now())) {
    case "open":
      return;
    case "stale":
      throw proposalStale(proposal.id, rev);
    default:
      throw closedError(proposal);
  }
}

/** The error of a proposal that has ended. */
export function closedError({ id, closing, expiresAtMs }: ProposalEntry): FlowgateError {
  if (closing === undefined) {
    return proposalClosed(id, `has expired at ${new Date(expiresAtMs).toISOString()}`);
  }
  const { state, by, atMs, rev } = closing;
  const made = rev === undefined ? "" : ` as revision ${JSON.stringify(rev)}`;
  return proposalClosed(id, `was ${state} by ${JSON.stringify(by)} at ${new Date(atMs).toISOString()}${made}`);
}
