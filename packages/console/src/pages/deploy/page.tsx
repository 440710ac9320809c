import { type ReactNode, useState } from "react";
import type { Proposal, SetFlowsResponse } from "@flowgate/client";
import { Link } from "wouter";
import { Outcome, useDeployments } from "../../components/outcome.tsx";
import { Page } from "../../components/page.tsx";
import { StepHeading } from "../../components/step-heading.tsx";
import { texts as appTexts } from "../../texts/app.ts";
import { texts } from "../../texts/deploy.ts";
import { type Draft, emptyDraft, FlowsStep } from "./flows-step.tsx";
import type { Prepared } from "./given-flows.ts";
import { PlanStep } from "./plan-step.tsx";
import "./deploy.css";

type Stage =
  | { readonly at: "flows"; readonly wasElsewhere: boolean }
  | { readonly at: "plan"; readonly prepared: Prepared }
  | { readonly at: "deployed"; readonly response: SetFlowsResponse }
  | { readonly at: "proposed"; readonly proposal: Proposal };

export function DeployPage(): ReactNode {
  const deployments = useDeployments();
  const [draft, setDraft] = useState<Draft>(emptyDraft);
  const [stage, setStage] = useState<Stage>({ at: "flows", wasElsewhere: false });
  const edit = (): void => setStage({ at: "flows", wasElsewhere: true });
  const startAgain = (): void => {
    setDraft(emptyDraft);
    edit();
  };
  return (
    <Page title={appTexts.pages.deploy}>
      {stage.at === "flows" ? (
        <FlowsStep
          draft={draft}
          takesFocus={stage.wasElsewhere}
          onChange={setDraft}
          onPrepared={(prepared) => setStage({ at: "plan", prepared })}
        />
      ) : null}
      {stage.at === "plan" ? (
        <PlanStep
          key={keyOf(stage.prepared)}
          prepared={stage.prepared}
          deployments={deployments}
          // The revision that the text names is the one that was replaced.
          onPlanAgain={() => setStage({ at: "plan", prepared: { ...stage.prepared, rev: undefined } })}
          onBack={edit}
          onGiveUp={startAgain}
          onDeployed={(response) => setStage({ at: "deployed", response })}
          onProposed={(proposal) => setStage({ at: "proposed", proposal })}
        />
      ) : null}
      {stage.at === "deployed" ? (
        <section className="card">
          <StepHeading>{texts.steps.outcome}</StepHeading>
          <Outcome response={stage.response} deployments={deployments} />
          <Again onClick={startAgain} />
        </section>
      ) : null}
      {stage.at === "proposed" ? (
        <section className="card">
          <StepHeading>{texts.steps.outcome}</StepHeading>
          <p>Proposed. Nothing is deployed until someone else approves it.</p>
          <p>
            <Link className="button primary" href={`/proposals/${encodeURIComponent(stage.proposal.id)}`}>
              Open the proposal
            </Link>
          </p>
          <Again onClick={startAgain} />
        </section>
      ) : null}
    </Page>
  );
}

function Again({ onClick }: { readonly onClick: () => void }): ReactNode {
  return (
    <div className="actions">
      <button type="button" onClick={onClick}>
        Deploy other flows
      </button>
    </div>
  );
}

const keys = new WeakMap<Prepared, number>();
let lastKey = 0;

/** A plan of other flows begins anew. */
function keyOf(prepared: Prepared): number {
  const key = keys.get(prepared) ?? ++lastKey;
  keys.set(prepared, key);
  return key;
}
