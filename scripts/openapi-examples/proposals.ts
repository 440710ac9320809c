import type { Examples } from "@flowgate/gateway";
import { diff, diffText, json, nodes, rev } from "./values.ts";

const proposal = {
  id: "8c1f52a09b7d3e64",
  base: rev,
  createTime: "2026-11-20T16:42:07.318Z",
  expireTime: "2026-11-27T16:42:07.318Z",
  state: "open",
  user: "editor",
  tokenId: "4f0c2a9be8d15c7763a1f20e",
  deploymentType: "nodes",
  message: "new greeting",
  digest: "9f2d6a7c1e0b4835d7f6c2a19e8b3d504f6a7c8e9d0b1a2c3e4f5a6b7c8d9e0f",
  nodeCount: 4,
  sizeBytes: 571,
  changes: [{ kind: "tab", id: "9b1c0f5e2d7a4c11", label: "Greetings" }],
};
const closed = { closeTime: "2026-11-21T08:15:30.125Z", closedBy: "admin", closedByTokenId: proposal.tokenId };

export const proposals: Examples = {
  ProposalsService_ListProposals: {
    responses: { 200: json({ open: { summary: "?state=open", value: { proposals: [proposal] } } }) },
  },
  ProposalsService_GetProposal: {
    responses: {
      200: json({
        basic: { summary: "Without flows", value: proposal },
        full: { summary: "?view=FULL", value: { ...proposal, flows: nodes } },
      }),
    },
  },
  ProposalsService_PlanProposal: {
    responses: {
      200: {
        ...json({
          plan: {
            summary: "One node is changed",
            value: {
              rev,
              diff,
              nodes: [
                { id: "7f3a1c8e5b2d4e33", type: "function", name: "greet", tab: "9b1c0f5e2d7a4c11", action: "restart" },
              ],
              missingTypes: [],
              modules: [],
              warnings: [],
              activeOutcome: "running",
            },
          },
        }),
        "text/plain": {
          plan: {
            summary: "The same for people",
            value: `nodes to start: 0, to stop: 0, to restart: 1\n\n${diffText}`,
          },
        },
      },
    },
  },
  ProposalsService_CreateProposal: {
    request: json({
      v1: { summary: "v1: an array of nodes", value: nodes },
      v2: { summary: "v2: with the base", value: { flows: nodes, rev } },
    }),
    responses: {
      201: json({ created: { value: proposal } }),
      default: json({
        nothing: {
          summary: "Nothing would change",
          value: {
            code: "nothing_proposed",
            message: "the proposed flows are active already: there is nothing to approve",
          },
        },
      }),
    },
  },
  ProposalsService_ApproveProposal: {
    request: json({
      reviewed: { summary: "What was reviewed", value: { digest: proposal.digest, reason: "looks good" } },
    }),
    responses: {
      200: json({ deployed: { value: { rev: "Mv2xR7cHn4KfP0aLz8WtBQ" } } }),
      default: json({
        own: {
          summary: "A proposal of the caller",
          value: {
            code: "own_proposal",
            message: "The author of a proposal can't approve it, even with another token: ask another user.",
          },
        },
      }),
    },
  },
  ProposalsService_RejectProposal: {
    request: json({ reason: { summary: "With a reason", value: { reason: "the greeting is wrong" } } }),
    responses: {
      200: json({
        rejected: { value: { ...proposal, state: "rejected", ...closed, reason: "the greeting is wrong" } },
      }),
    },
  },
  ProposalsService_WithdrawProposal: {
    request: json({ reason: { summary: "With a reason", value: { reason: "a mistake" } } }),
    responses: {
      200: json({
        withdrawn: { value: { ...proposal, state: "withdrawn", ...closed, closedBy: "editor", reason: "a mistake" } },
      }),
    },
  },
};
