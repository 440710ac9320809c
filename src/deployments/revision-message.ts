import type { MessageInitShape } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import {
  DeploymentOutcome,
  DeploymentType,
  RevisionCause,
  type RevisionSchema,
} from "../../gen/flowgate/v1/flows_pb.ts";
import { enumValue } from "@flowgate/base/enums";
import type { RevisionEntry } from "../store/revision.ts";
import type { Settlement } from "./outcome-recorder.ts";

export const outcomes: Readonly<Record<Settlement["outcome"], DeploymentOutcome>> = {
  pending: DeploymentOutcome.PENDING,
  running: DeploymentOutcome.RUNNING,
  degraded: DeploymentOutcome.DEGRADED,
  failed: DeploymentOutcome.FAILED,
  replaced: DeploymentOutcome.REPLACED,
  undone: DeploymentOutcome.UNDONE,
  stopped: DeploymentOutcome.STOPPED,
};

export function toRevision(entry: RevisionEntry, activeRev: string): MessageInitShape<typeof RevisionSchema> {
  return {
    rev: entry.rev,
    parent: entry.parent ?? "",
    createTime: timestampFromMs(entry.committedAtMs),
    active: entry.rev === activeRev,
    user: entry.by ?? "",
    tokenId: entry.token?.id ?? "",
    tokenName: entry.token?.name ?? "",
    clientAddress: entry.address ?? "",
    protocol: entry.protocol ?? "",
    requestId: entry.requestId ?? "",
    deploymentType: enumValue(DeploymentType, entry.deploymentType),
    cause: enumValue(RevisionCause, entry.cause),
    restoredRev: entry.restoredRev ?? "",
    message: entry.message ?? "",
    pinned: entry.pinned,
    outcome: outcomes[entry.outcome.state],
    outcomeMessage: entry.outcome.message ?? "",
    missingTypes: [...entry.outcome.missingTypes],
    proposalId: entry.approval?.proposalId ?? "",
    approvedBy: entry.approval?.by ?? "",
    approvedByTokenId: entry.approval?.token?.id ?? "",
    approvedByTokenName: entry.approval?.token?.name ?? "",
    nodeCount: entry.nodeCount,
    sizeBytes: entry.sizeBytes,
    restarts: entry.restarts,
  };
}
