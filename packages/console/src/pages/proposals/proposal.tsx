import { type ReactNode, useState } from "react";
import { useQuery } from "@connectrpc/connect-query";
import {
  OnFailure,
  type PlanFlowsResponse,
  type Proposal,
  ProposalsService,
  ProposalState,
  type SetFlowsResponse,
} from "@flowgate/client";
import { Link } from "wouter";
import { describeCaller } from "../../components/describe.ts";
import { Fact } from "../../components/fact.tsx";
import { Outcome, useDeployments } from "../../components/outcome.tsx";
import { Page, Result } from "../../components/page.tsx";
import { Plan } from "../../components/plan.tsx";
import { deploymentTypes, RevisionLink } from "../../components/revision.tsx";
import { StepHeading } from "../../components/step-heading.tsx";
import { ExactTime, Time } from "../../components/time.tsx";
import { visibleText } from "../../components/visible-text.ts";
import { useSession } from "../../session.tsx";
import { texts } from "../../texts/proposals.ts";
import { DecisionButtons } from "./decisions.tsx";
import { decisionsOf, describeChanges, describeModule, states } from "./view.ts";
import { Sign } from "../../components/sign.tsx";

export function ProposalPage({ id }: { readonly id: string }): ReactNode {
  const proposal = useQuery(ProposalsService.method.getProposal, { id });
  // Its base may not be in the history any more.
  const plan = useQuery(ProposalsService.method.planProposal, { id }, { retry: false });
  const deployments = useDeployments();
  const [response, setResponse] = useState<SetFlowsResponse>();
  return (
    <Page title="Proposal" actions={<Link href="/proposals">All proposals</Link>}>
      {response === undefined ? null : (
        <section className="card">
          <StepHeading>Outcome</StepHeading>
          <Outcome response={response} deployments={deployments} />
        </section>
      )}
      <Result of={proposal}>
        {(data) => (
          <>
            <Facts proposal={data} />
            <Decide proposal={data} plan={plan.data} onDeployed={setResponse} />
            <section className="stack">
              <h2>{data.state === ProposalState.OPEN ? "Plan" : "Plan, in the revision that it is a change of"}</h2>
              {plan.error === null ? (
                <Result of={plan}>
                  {(shown) => <Plan plan={shown} type={data.deploymentType} modules={data.modules} />}
                </Result>
              ) : (
                <p className="muted">
                  There is no plan: the revision that it is a change of is not in the history any more.
                </p>
              )}
            </section>
          </>
        )}
      </Result>
    </Page>
  );
}

function Facts({ proposal }: { readonly proposal: Proposal }): ReactNode {
  const { state, user, tokenName, message, createTime, expireTime, closeTime, closedBy, closedByTokenName } = proposal;
  const { base, deploymentType, wait, maxErrors = 0, onFailure, nodeCount, digest, reason, rev, modules } = proposal;
  return (
    <dl className="facts card">
      <Fact name={texts.state}>
        <StateSign state={state} />
      </Fact>
      <Fact name={texts.message}>{visibleText(message) || <span className="muted">{texts.noMessage}</span>}</Fact>
      <Fact name={texts.by}>{visibleText(describeCaller({ user, tokenName }))}</Fact>
      <Fact name={texts.proposed}>
        <Time at={createTime} /> (<ExactTime at={createTime} />)
      </Fact>
      <Fact name={texts.expires}>{state === ProposalState.OPEN ? <Time at={expireTime} /> : null}</Fact>
      {closeTime === undefined ? null : (
        <Fact name="Closed">
          <Time at={closeTime} />{" "}
          {closedBy === ""
            ? null
            : `(${visibleText(describeCaller({ user: closedBy, tokenName: closedByTokenName }))})`}
        </Fact>
      )}
      <Fact name="Reason">{visibleText(reason)}</Fact>
      <Fact name="Deployed as">{rev && <RevisionLink rev={rev} />}</Fact>
      <Fact name={texts.changes}>{describeChanges(proposal, Infinity)}</Fact>
      {modules.length === 0 ? null : (
        <Fact name={texts.modules}>
          <ul className="plain-list">
            {modules.map((module) => (
              <li key={module.name}>
                <code>{describeModule(module)}</code>
              </li>
            ))}
          </ul>
        </Fact>
      )}
      <Fact name="Flows">{texts.nodes(nodeCount)}</Fact>
      <Fact name="Change of revision">
        <RevisionLink rev={base} />
      </Fact>
      <Fact name="Restart">{deploymentTypes[deploymentType]}</Fact>
      <Fact name="Observed">{wait === undefined ? null : texts.seconds(wait, maxErrors)}</Fact>
      <Fact name="On failure">{onFailure === OnFailure.UNDO ? "undone" : null}</Fact>
      <Fact name="Digest">
        <code>{visibleText(digest)}</code>
      </Fact>
    </dl>
  );
}

function Decide({
  proposal,
  plan,
  onDeployed,
}: {
  readonly proposal: Proposal;
  readonly plan: PlanFlowsResponse | undefined;
  readonly onDeployed: (response: SetFlowsResponse) => void;
}): ReactNode {
  const decisions = decisionsOf(proposal, useSession());
  return (
    <>
      {decisions.hint === "" ? null : <output className="proposal-hint">{decisions.hint}</output>}
      <DecisionButtons proposal={proposal} plan={plan} decisions={decisions} onDeployed={onDeployed} />
    </>
  );
}

export function StateSign({ state }: { readonly state: ProposalState }): ReactNode {
  const { name, tone } = states.find((each) => each.state === state) ?? states[0];
  return <Sign tone={tone}>{texts.states[name]}</Sign>;
}
