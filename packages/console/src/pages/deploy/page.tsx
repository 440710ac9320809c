import { type ReactNode, useEffect, useState } from "react";
import type { Proposal, SetFlowsResponse } from "@flowgate/client";
import { Link } from "wouter";
import { Outcome, useDeployments } from "../../components/outcome.tsx";
import { Page } from "../../components/page.tsx";
import { StepHeading } from "../../components/step-heading.tsx";
import { texts as appTexts } from "../../texts/app.ts";
import { texts } from "../../texts/deploy.ts";
import { FlowsReader } from "./flows-reader.ts";
import { type Draft, emptyDraft, FlowsStep } from "./flows-step.tsx";
import type { Prepared } from "./flows-worker.ts";
import { PlanStep } from "./plan-step.tsx";
import "./deploy.css";

type Stage =
  | { readonly at: "flows"; readonly wasElsewhere: boolean }
  | { readonly at: "plan"; readonly prepared: Prepared }
  | { readonly at: "deployed"; readonly response: SetFlowsResponse }
  | { readonly at: "proposed"; readonly proposal: Proposal };

export function DeployPage(): ReactNode {
  const reader = useReader();
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
          reader={reader}
          draft={draft}
          takesFocus={stage.wasElsewhere}
          onChange={setDraft}
          onPrepared={(prepared) => setStage({ at: "plan", prepared })}
        />
      ) : null}
      {stage.at === "plan" ? (
        <PlanStep
          key={keyOf(stage.prepared)}
          reader={reader}
          prepared={stage.prepared}
          modules={draft.summary?.modules ?? []}
          deployments={deployments}
          onPlanAgain={async () => {
            const { fields, rev } = await reader.combine(draft.target);
            // The revision that the text names is the one that was replaced.
            setStage({ at: "plan", prepared: draft.target === "all" ? { fields, rev: undefined } : { fields, rev } });
          }}
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
          <p>{texts.proposed}</p>
          <p>
            <Link className="button primary" href={`/proposals/${encodeURIComponent(stage.proposal.id)}`}>
              {texts.toProposal}
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
        {texts.another}
      </button>
    </div>
  );
}

function useReader(): FlowsReader {
  const [reader] = useState(() => new FlowsReader());
  useEffect(() => () => reader[Symbol.dispose](), [reader]);
  return reader;
}

const keys = new WeakMap<Prepared, number>();
let lastKey = 0;

/** A plan of other flows begins anew. */
function keyOf(prepared: Prepared): number {
  const key = keys.get(prepared) ?? ++lastKey;
  keys.set(prepared, key);
  return key;
}
