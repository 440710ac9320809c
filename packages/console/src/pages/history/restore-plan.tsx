import { type ReactNode, useMemo } from "react";
import type { DeploymentType, DiffRevisionResponse, PlanFlowsResponse, Revision } from "@flowgate/client";
import { changesModules } from "../../components/losses.ts";
import { Losses, Plan } from "../../components/plan.tsx";
import { RevisionLink, RevisionAuthor, RevisionOutcome } from "../../components/revision.tsx";
import { Time } from "../../components/time.tsx";
import { visibleText } from "../../components/visible-text.ts";
import { texts } from "../../texts/history.ts";

/** What deploying the flows of an earlier revision does. */
export function RestorePlan({
  plan,
  difference: { diff, modules },
  target,
  type,
}: {
  readonly plan: PlanFlowsResponse;
  /** From the active revision. It knows the names of credentials that change, and the modules that are installed. */
  readonly difference: DiffRevisionResponse;
  readonly target: Revision;
  readonly type: DeploymentType;
}): ReactNode {
  // The flows of the plan had no credentials.
  const whole = useMemo(() => ({ ...plan, ...(diff && { diff }) }), [plan, diff]);
  return (
    <>
      <div className="restore-part">
        <p>
          {texts.deploysFlowsOf} <RevisionLink rev={target.rev} />{" "}
          {target.message === "" ? null : <q>{visibleText(target.message)}</q>} ({texts.by}{" "}
          <RevisionAuthor of={target} />, <Time at={target.createTime} />
          ). {texts.outcomeThen} <RevisionOutcome of={target} />
        </p>
        <Losses type={type} nodes={plan.nodes} modules={modules} diff={diff} />
        {changesModules(modules) ? <p>{texts.allRestart}</p> : null}
      </div>
      <Plan plan={whole} modules={target.modules} nodes={target.flows} />
    </>
  );
}
