import type { ReactNode } from "react";
import { Link } from "wouter";
import { DeploymentType, type Revision, RevisionCause } from "@flowgate/client";
import { texts } from "../texts/revision.ts";
import { describeOutcome } from "./describe.ts";
import { Sign } from "./sign.tsx";
import { visibleText } from "./visible-text.ts";

/** The beginning of a rev, which is unambiguous in practice. */
export function shortRev(rev: string): string {
  return rev.slice(0, 8);
}

export function RevisionLink({ rev }: { readonly rev: string }): ReactNode {
  return (
    <Link href={`/history/${encodeURIComponent(rev)}`}>
      <code>{shortRev(rev)}</code>
    </Link>
  );
}

export function RevisionAuthor({
  of: { user, tokenName, approvedBy },
}: {
  readonly of: Pick<Revision, "user" | "tokenName" | "approvedBy">;
}): ReactNode {
  return (
    <span className="revision-author">
      {user === "" ? <span className="muted">Not signed in</span> : <bdi>{visibleText(user)}</bdi>}
      {tokenName === "" ? null : <span className="muted"> {texts.byToken(visibleText(tokenName))}</span>}
      {approvedBy === "" ? null : <span className="muted"> {texts.approvedBy(visibleText(approvedBy))}</span>}
    </span>
  );
}

const causes: Readonly<Record<number, string>> = {
  [RevisionCause.DEPLOYMENT]: "Deployment",
  [RevisionCause.MERGE]: "Merge",
  [RevisionCause.FLOW]: "Change of a flow",
  [RevisionCause.RESTORE]: "Restore",
  [RevisionCause.UNDO]: "Undo",
  [RevisionCause.AUTOMATIC_UNDO]: "Automatic undo",
};

export function RevisionCauseText({
  of: { cause, restoredRev },
}: {
  readonly of: Pick<Revision, "cause" | "restoredRev">;
}): ReactNode {
  const word = causes[cause] ?? "Unknown";
  return restoredRev === "" ? (
    word
  ) : (
    <>
      {word}, {"back to"} <RevisionLink rev={restoredRev} />
    </>
  );
}

export function RevisionOutcome({
  of: { outcome, outcomeMessage, restarts },
}: {
  readonly of: Pick<Revision, "outcome" | "outcomeMessage" | "restarts">;
}): ReactNode {
  const [word, tone] = describeOutcome(outcome);
  return (
    <span className="revision-outcome">
      <Sign tone={tone}>{word}</Sign>
      {restarts === 0 ? null : <span className="muted"> {texts.restarts(restarts)}</span>}
      {outcomeMessage === "" ? null : <span className="muted"> {visibleText(outcomeMessage)}</span>}
    </span>
  );
}

/** The nodes that each type of deployment restarts. */
export const deploymentTypes: Readonly<Record<number, string>> = {
  [DeploymentType.FULL]: texts.types.full,
  [DeploymentType.NODES]: texts.types.nodes,
  [DeploymentType.FLOWS]: texts.types.flows,
};
