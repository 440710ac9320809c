import { type ReactNode, useMemo } from "react";
import type { DeploymentType, DiffRevisionResponse, PlanFlowsResponse, Revision } from "@flowgate/client";
import { Plan } from "../../components/plan.tsx";
import { RevisionLink, RevisionAuthor, RevisionOutcome } from "../../components/revision.tsx";
import { Time } from "../../components/time.tsx";
import { visibleText } from "../../components/visible-text.ts";
import { texts } from "../../texts/history.ts";
import { changesModules, lossesOf } from "./restoration.ts";

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
  const { losesProcess, losesMessages, removed } = useMemo(
    () => lossesOf({ type, nodes: plan.nodes, modules, diff }),
    [type, plan, modules, diff],
  );
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
        <div className="plan-note" data-tone={losesProcess ? "warn" : "info"}>
          <p>{texts.lost}</p>
          <ul>
            {losesProcess ? <li>{texts.losses.process}</li> : null}
            {losesMessages ? <li>{texts.losses.messages}</li> : null}
            {removed > 0 ? <li>{texts.losses.removed(removed)}</li> : null}
            {losesProcess || losesMessages || removed > 0 ? null : <li>{texts.losses.nothing}</li>}
          </ul>
        </div>
        {changesModules(modules) ? <p>{texts.allRestart}</p> : null}
      </div>
      <Plan plan={whole} modules={target.modules} nodes={target.flows} />
    </>
  );
}
