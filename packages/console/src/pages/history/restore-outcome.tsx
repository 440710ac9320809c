import { type ReactNode, useEffect, useRef } from "react";
import type { Proposal, Revision, SetFlowsResponse } from "@flowgate/client";
import { Link } from "wouter";
import type { Deployments } from "../../components/deployment-events.ts";
import { Outcome } from "../../components/outcome.tsx";
import { RevisionAuthor, RevisionLink } from "../../components/revision.tsx";
import { Time } from "../../components/time.tsx";
import { visibleText } from "../../components/visible-text.ts";
import { texts } from "../../texts/history.ts";

export function Restored({
  response,
  deployments,
  onClose,
}: {
  readonly response: SetFlowsResponse;
  readonly deployments: Deployments;
  readonly onClose: () => void;
}): ReactNode {
  return (
    <Ending onClose={onClose}>
      <Outcome response={response} deployments={deployments} />
    </Ending>
  );
}

export function Conflict({
  active,
  canPlanAgain,
  onPlanAgain,
  onClose,
}: {
  readonly active: Revision;
  readonly canPlanAgain: boolean;
  readonly onPlanAgain: () => void;
  readonly onClose: () => void;
}): ReactNode {
  return (
    <Ending
      onClose={onClose}
      action={
        canPlanAgain ? (
          <button type="button" className="primary" onClick={onPlanAgain}>
            Show the plan again
          </button>
        ) : null
      }
    >
      <p>
        <strong>Another deployment came in between. Nothing was changed.</strong>
      </p>
      <p>
        Active is now: <RevisionLink rev={active.rev} />{" "}
        {active.message === "" ? null : <q>{visibleText(active.message)}</q>} ({texts.by} <RevisionAuthor of={active} />
        , <Time at={active.createTime} />)
      </p>
    </Ending>
  );
}

export function NeedsApproval({
  canPropose,
  isBusy,
  onPropose,
  onClose,
}: {
  readonly canPropose: boolean;
  readonly isBusy: boolean;
  readonly onPropose: () => void;
  readonly onClose: () => void;
}): ReactNode {
  return (
    <Ending
      onClose={onClose}
      action={
        canPropose ? (
          <button type="button" className="primary" disabled={isBusy} onClick={onPropose}>
            {texts.propose}
          </button>
        ) : null
      }
    >
      <p>
        <strong>This needs the approval of a second person. Nothing was deployed.</strong>
      </p>
      {canPropose ? <p>{texts.proposalHint}</p> : null}
    </Ending>
  );
}

export function Proposed({
  proposal: { id },
  onClose,
}: {
  readonly proposal: Proposal;
  readonly onClose: () => void;
}): ReactNode {
  return (
    <Ending onClose={onClose}>
      <p>
        <strong>It is proposed. Another user can approve it.</strong>
      </p>
      <p>
        <Link href={`/proposals/${encodeURIComponent(id)}`}>Show the proposal</Link>
      </p>
    </Ending>
  );
}

/** In place of the plan. It gets the focus, which the form had. */
function Ending({
  action,
  children,
  onClose,
}: {
  readonly action?: ReactNode;
  readonly children: ReactNode;
  readonly onClose: () => void;
}): ReactNode {
  const place = useRef<HTMLDivElement>(null);
  useEffect(() => place.current?.focus(), []);
  return (
    <>
      <div ref={place} tabIndex={-1} className="restore-part stack">
        {children}
      </div>
      <div className="dialog-actions">
        {action}
        <button type="button" onClick={onClose}>
          Done
        </button>
      </div>
    </>
  );
}
