import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { ContainerKind } from "../../gen/flowgate/v1/diff_pb.ts";
import { DeploymentType, FlowModuleSchema, OnFailure } from "../../gen/flowgate/v1/flows_pb.ts";
import { type ProposalSchema, ProposalState as ProposalStateMessage } from "../../gen/flowgate/v1/proposals_pb.ts";
import { enumValue } from "@flowgate/base/enums";
import { describeStale } from "../deployments/errors.ts";
import type { EventInit } from "../events/events.ts";
import { type ProposalClosing, type ProposalEntry, stateOf } from "../store/proposal-store.ts";

export function toProposal(entry: ProposalEntry, activeRev: string): MessageInitShape<typeof ProposalSchema> {
  const { closing, token, waitMs, maxErrors } = entry;
  const state = stateOf(entry, activeRev, Date.now());
  return {
    id: entry.id,
    base: entry.base,
    createTime: timestampFromMs(entry.createdAtMs),
    expireTime: timestampFromMs(entry.expiresAtMs),
    state: enumValue(ProposalStateMessage, state),
    user: entry.by ?? "",
    tokenId: token?.id ?? "",
    tokenName: token?.name ?? "",
    deploymentType: enumValue(DeploymentType, entry.deploymentType),
    message: entry.message ?? "",
    ...(waitMs !== undefined && { wait: waitMs / 1000, maxErrors }),
    onFailure: entry.undoOnFailure ? OnFailure.UNDO : OnFailure.UNSPECIFIED,
    digest: entry.digest,
    nodeCount: entry.nodeCount,
    sizeBytes: entry.sizeBytes,
    changes: entry.changes.map(({ kind, id, labels }) => ({
      kind: enumValue(ContainerKind, kind),
      id,
      label: labels.findLast((label) => label !== undefined) ?? "",
    })),
    modules: entry.modules.map(({ name, version, integrity }) =>
      create(FlowModuleSchema, { name, version, ...(integrity !== undefined && { integrity }) }),
    ),
    ...(closing !== undefined && {
      closeTime: timestampFromMs(closing.atMs),
      closedBy: closing.by ?? "",
      closedByTokenId: closing.token?.id ?? "",
      closedByTokenName: closing.token?.name ?? "",
      rev: closing.rev ?? "",
    }),
    reason: closing?.reason ?? (state === "stale" ? describeStale(activeRev) : ""),
  };
}

/** The event about a new proposal, or about how one was closed. */
export function toProposalEvent(
  { id, base, message = "", ...proposer }: ProposalEntry,
  closing?: Omit<ProposalClosing, "atMs">,
): EventInit {
  const { by, token } = closing ?? proposer;
  return {
    rev: closing?.rev ?? base,
    kind: {
      case: "proposal",
      value: {
        id,
        state: enumValue(ProposalStateMessage, closing?.state ?? "open"),
        user: by ?? "",
        tokenName: token?.name ?? "",
        proposedBy: proposer.by ?? "",
        message,
        reason: closing?.reason ?? "",
      },
    },
  };
}
