import { ConnectError } from "@connectrpc/connect";
import {
  type ConcurrentChange,
  DeploymentErrorReason,
  DeploymentErrorSchema,
  NodeChangeSchema,
} from "@flowgate/client";
import { printable } from "../printable.ts";
import { CliFailure, exitCodes } from "../failure.ts";
import { enumWord } from "../output/enum-word.ts";
import { describeRevision } from "../revisions/describe-revision.ts";

/** Converts the conflict of a deployment with another one to a failure that says what to do. Other errors are returned. */
export function explainConflict(error: unknown): unknown {
  const [details] = error instanceof ConnectError ? error.findDetails(DeploymentErrorSchema) : [];
  if (details?.active === undefined || details.code === DeploymentErrorReason.IDEMPOTENCY_KEY_REUSED) {
    return error;
  }
  const { active, changes, changeCount, code } = details;
  const isUnmergeable = code === DeploymentErrorReason.MERGE_CONFLICT;
  const more = changeCount > changes.length ? [`  and ${changeCount - changes.length} more`] : [];
  return new CliFailure(
    [
      `Conflict: ${describeRevision(active)} is active. Nothing was deployed.`,
      ...changes.map((change) => `  ${describeChange(change)}`),
      ...more,
      isUnmergeable
        ? "Both changed the same nodes. Export the active flows, make your changes again, and deploy them."
        : `See what changed with flowgate show ${active.rev}. Then repeat with --merge to keep the changes of both, or without --rev to replace them.`,
    ].join("\n"),
    { exitCode: exitCodes.conflict, cause: error },
  );
}

function describeChange({ nodeId, type, name, yours, theirs, conflict }: ConcurrentChange): string {
  const sides = [
    yours === 0 ? undefined : `${enumWord(NodeChangeSchema, yours)} by you`,
    theirs === 0 ? undefined : `${enumWord(NodeChangeSchema, theirs)} by others`,
  ].filter((side) => side !== undefined);
  const label = name === "" ? "" : ` ${JSON.stringify(name)}`;
  const reason = conflict === "" ? "" : `: ${conflict}`;
  return printable(`${type}${label} (${nodeId}): ${sides.join(", ")}${reason}`);
}
