import type { ReactNode } from "react";
import { Fact } from "../../components/fact.tsx";
import { Problem } from "../../components/notice.tsx";
import { ConcurrentChanges } from "../../components/outcome.tsx";
import { RevisionAuthor, RevisionLink } from "../../components/revision.tsx";
import { StepHeading } from "../../components/step-heading.tsx";
import { Time } from "../../components/time.tsx";
import { visibleText } from "../../components/visible-text.ts";
import { texts } from "../../texts/deploy.ts";
import type { Conflict } from "./failures.ts";

export function ConflictStep({
  conflict: { active, changes, more, canMerge },
  error,
  isBusy,
  onMerge,
  onPlanAgain,
  onGiveUp,
}: {
  readonly conflict: Conflict;
  readonly error: unknown;
  readonly isBusy: boolean;
  /** Undefined if the user may not deploy. */
  readonly onMerge: (() => void) | undefined;
  readonly onPlanAgain: () => void;
  readonly onGiveUp: () => void;
}): ReactNode {
  return (
    <section className="card">
      <StepHeading>{texts.steps.conflict}</StepHeading>
      <p role="alert">
        {canMerge
          ? "Nothing was deployed: since the revision that your flows were planned on, others have deployed."
          : "Nothing was deployed: you and others have changed the same nodes in different ways."}
      </p>
      <dl className="facts">
        <Fact name="Active now">
          <RevisionLink rev={active.rev} /> (<RevisionAuthor of={active} />, <Time at={active.createTime} />)
          {active.message === "" ? null : <div>{visibleText(active.message)}</div>}
        </Fact>
      </dl>
      {changes.length === 0 ? null : (
        <>
          <h3>Changes of both sides</h3>
          <ConcurrentChanges changes={changes} more={more} />
        </>
      )}
      {error === undefined ? null : <Problem error={error} />}
      <div className="choices">
        {canMerge && onMerge !== undefined ? (
          <div>
            <button type="button" className="primary" disabled={isBusy} onClick={onMerge}>
              {texts.conflict.merge}
            </button>
            <span className="muted">Keeps the changes of both sides.</span>
          </div>
        ) : null}
        <div>
          <button type="button" disabled={isBusy} onClick={onPlanAgain}>
            Plan again on the active revision
          </button>
          <span className="muted">
            Shows what your flows would change there. Changes of others that your flows do not have are undone.
          </span>
        </div>
        <div>
          <button type="button" disabled={isBusy} onClick={onGiveUp}>
            Give up
          </button>
        </div>
      </div>
    </section>
  );
}
