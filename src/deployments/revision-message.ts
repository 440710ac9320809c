import type { MessageInitShape } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import {
  DeploymentOutcome,
  DeploymentType as DeploymentTypeMessage,
  RevisionCause as RevisionCauseMessage,
  type RevisionSchema,
} from "../../gen/flowgate/v1/flows_pb.ts";
import type { DeploymentType } from "../flows/configuration.ts";
import type { RevisionCause, RevisionEntry } from "../store/revision.ts";
import type { Settlement } from "./outcome-recorder.ts";

export const outcomes: Readonly<Record<Settlement["outcome"], DeploymentOutcome>> = {
  pending: DeploymentOutcome.PENDING,
  running: DeploymentOutcome.RUNNING,
  failed: DeploymentOutcome.FAILED,
  crashed: DeploymentOutcome.CRASHED,
  replaced: DeploymentOutcome.REPLACED,
  undone: DeploymentOutcome.UNDONE,
  stopped: DeploymentOutcome.STOPPED,
};

export const types: Readonly<Record<DeploymentType, DeploymentTypeMessage>> = {
  full: DeploymentTypeMessage.FULL,
  nodes: DeploymentTypeMessage.NODES,
  flows: DeploymentTypeMessage.FLOWS,
  reload: DeploymentTypeMessage.RELOAD,
};

const causes: Readonly<Record<RevisionCause, RevisionCauseMessage>> = {
  deployment: RevisionCauseMessage.DEPLOYMENT,
  merge: RevisionCauseMessage.MERGE,
  flow: RevisionCauseMessage.FLOW,
  restore: RevisionCauseMessage.RESTORE,
  undo: RevisionCauseMessage.UNDO,
  automatic_undo: RevisionCauseMessage.AUTOMATIC_UNDO,
};

/** Converts a revision, without flows. */
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
    deploymentType: types[entry.deploymentType],
    cause: causes[entry.cause],
    restoredRev: entry.restoredRev ?? "",
    message: entry.message ?? "",
    pinned: entry.pinned,
    outcome: outcomes[entry.outcome.state],
    outcomeMessage: entry.outcome.message ?? "",
    missingTypes: [...entry.outcome.missingTypes],
    nodeCount: entry.nodeCount,
    sizeBytes: entry.sizeBytes,
  };
}
