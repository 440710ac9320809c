import { type ReactNode, useMemo, useRef, useState } from "react";
import { createClient, type Transport } from "@connectrpc/connect";
import { useQuery } from "@connectrpc/connect-query";
import { keepPreviousData } from "@tanstack/react-query";
import {
  ContainerKind,
  type FlowModule,
  FlowsService,
  NodeChange,
  type PlanFlowsResponse,
  type Proposal,
  ProposalsService,
  type SetFlowsResponse,
} from "@flowgate/client";
import { createTransport, messageOf } from "../../api/transport.ts";
import type { Deployments } from "../../components/deployment-events.ts";
import { ConfirmButton } from "../../components/dialog.tsx";
import { Loading, Problem } from "../../components/notice.tsx";
import { OutcomeSentence } from "../../components/outcome.tsx";
import { Harm, hasChanges, isHarmful, Plan } from "../../components/plan.tsx";
import { RevisionLink } from "../../components/revision.tsx";
import { StepHeading } from "../../components/step-heading.tsx";
import { visibleText } from "../../components/visible-text.ts";
import { useSession } from "../../session.tsx";
import { texts } from "../../texts/deploy.ts";
import { ConflictStep } from "./conflict.tsx";
import { findConflict, isNotPermitted, needsApproval } from "./failures.ts";
import type { Prepared } from "./given-flows.ts";
import { defaultOptions, OptionFields, optionFields, type Options } from "./options.tsx";

export function PlanStep({
  prepared,
  deployments,
  onPlanAgain,
  onBack,
  onGiveUp,
  onDeployed,
  onProposed,
}: {
  readonly prepared: Prepared;
  readonly deployments: Deployments;
  /** Makes the plan for the revision that is active then. */
  readonly onPlanAgain: () => void;
  readonly onBack: () => void;
  readonly onGiveUp: () => void;
  readonly onDeployed: (response: SetFlowsResponse) => void;
  readonly onProposed: (proposal: Proposal) => void;
}): ReactNode {
  const { username, can } = useSession();
  const { modules } = prepared;
  const transport = useMemo(() => createTransport(prepared.fields), [prepared]);
  const [options, setOptions] = useState<Options>(defaultOptions);
  // The plan has shown a conflict, and is to be merged.
  const [isMerge, setMerge] = useState(false);
  const plan = usePlan(transport, prepared.rev, isMerge, options, modules);
  const { busy, error, run } = useCall();
  const key = useIdempotencyKey();
  const base = isMerge ? prepared.rev : (plan.data?.rev ?? prepared.rev);

  const deploy = (merge: boolean): Promise<void> =>
    run("deploy", async () => {
      const request = {
        ...optionFields(options),
        modules: [...modules],
        ...(base !== undefined && { rev: base }),
        merge,
      };
      const idempotencyKey = key(JSON.stringify(request));
      onDeployed(await createClient(FlowsService, transport).setFlows({ ...request, idempotencyKey }));
    });
  const propose = (): Promise<void> =>
    run("propose", async () => {
      const request = { ...optionFields(options), modules: [...modules], ...(base !== undefined && { rev: base }) };
      onProposed(await createClient(ProposalsService, transport).createProposal(request));
    });

  const deployConflict = findConflict(error);
  const conflict = deployConflict ?? findConflict(plan.error);
  if (conflict !== undefined) {
    const merge = deployConflict === undefined ? () => setMerge(true) : () => void deploy(true);
    return (
      <ConflictStep
        conflict={conflict}
        error={error !== undefined && deployConflict === undefined ? error : undefined}
        isBusy={busy !== undefined}
        onMerge={can("flows.write") ? merge : undefined}
        onPlanAgain={onPlanAgain}
        onGiveUp={onGiveUp}
      />
    );
  }
  if (busy === "deploy") {
    return <Progress base={base} options={options} deployments={deployments} />;
  }
  // Proposals have two people, who have names.
  const mayPropose = can("flows.propose") && username !== "";
  // A plan with credentials needs the permission to deploy, without which flows can be proposed.
  const isUnplanned = plan.data === undefined && isNotPermitted(plan.error) && mayPropose;
  const removedTabs = findRemovedTabs(plan.data);
  const isQuestionable = removedTabs.length > 0 || (plan.data !== undefined && isHarmful(plan.data, modules));
  return (
    <section className="deploy-step">
      <StepHeading>{texts.steps.plan}</StepHeading>
      <div className="actions">
        <button type="button" onClick={onBack}>
          Change the flows
        </button>
      </div>
      {plan.isPending ? <Loading /> : null}
      {plan.error === null || isUnplanned ? null : <Problem error={plan.error} />}
      {isUnplanned ? (
        <p>{messageOf(plan.error)} They can be proposed without a plan, which the person who approves them sees.</p>
      ) : null}
      {!isMerge && plan.data !== undefined && isReplaced(plan.data, deployments) ? (
        <div className="problem" role="alert">
          <p>Another deployment was made since this plan.</p>
          <button type="button" onClick={onPlanAgain}>
            Plan again
          </button>
        </div>
      ) : null}
      {plan.data === undefined ? null : <Plan plan={plan.data} type={options.type} modules={modules} />}
      {plan.data !== undefined && !isMerge && !hasChanges(plan.data, modules) ? (
        <output>Nothing to deploy: these flows are active.</output>
      ) : plan.data !== undefined || isUnplanned ? (
        <form
          className="card"
          onSubmit={(event) => {
            event.preventDefault();
            // Enter in a field does not deploy what should be confirmed.
            if (can("flows.write") && plan.data !== undefined && !isQuestionable) {
              void deploy(isMerge);
            }
          }}
        >
          <OptionFields options={options} onChange={setOptions} />
          {error === undefined ? null : <Problem error={error} />}
          <div className="actions">
            {can("flows.write") && plan.data !== undefined ? (
              isQuestionable ? (
                <ConfirmButton
                  label={texts.deploy}
                  title="Deploy although something would be lost or not run?"
                  description={
                    <>
                      <RemovedTabs names={removedTabs} />
                      <Harm plan={plan.data} modules={modules} />
                    </>
                  }
                  confirm="Deploy anyway"
                  isDangerous
                  onConfirm={() => deploy(isMerge)}
                />
              ) : (
                <button
                  type="submit"
                  className={needsApproval(error) ? "" : "primary"}
                  disabled={busy !== undefined || plan.isPlaceholderData}
                >
                  {isMerge ? texts.conflict.merge : texts.deploy}
                </button>
              )
            ) : null}
            {mayPropose && !isMerge ? (
              <button
                type="button"
                className={needsApproval(error) || !can("flows.write") ? "primary" : ""}
                disabled={busy !== undefined}
                onClick={() => void propose()}
              >
                Propose
              </button>
            ) : null}
          </div>
          {mayPropose ? <p className="muted">Someone else approves a proposal, which deploys it.</p> : null}
          {mayPropose || can("flows.write") ? null : (
            <output>
              You may neither deploy nor propose flows: this needs the permission flows.write or flows.propose.
            </output>
          )}
        </form>
      ) : null}
    </section>
  );
}

function usePlan(
  transport: Transport,
  rev: string | undefined,
  isMerge: boolean,
  { type }: Options,
  modules: readonly FlowModule[],
) {
  // What is merged are the changes since that revision. Otherwise, it has to be active.
  const start = rev === undefined ? {} : isMerge ? { base: rev } : { rev };
  return useQuery(
    FlowsService.method.planFlows,
    { deploymentType: type, modules: [...modules], ...start },
    { transport, staleTime: Infinity, gcTime: 0, placeholderData: keepPreviousData },
  );
}

type Call = "deploy" | "propose";

function useCall() {
  const [busy, setBusy] = useState<Call>();
  const [error, setError] = useState<unknown>();
  const run = async (call: Call, make: () => Promise<void>): Promise<void> => {
    setBusy(call);
    setError(undefined);
    try {
      await make();
    } catch (thrown) {
      setError(thrown);
    } finally {
      setBusy(undefined);
    }
  };
  return { busy, error, run };
}

/** The same request that is sent again, because its response was lost, deploys nothing. */
function useIdempotencyKey(): (request: string) => string {
  const last = useRef({ request: "", key: "" });
  return (request) => {
    if (last.current.request !== request) {
      // Unlike randomUUID, it is there without TLS.
      const key = Array.from(crypto.getRandomValues(new Uint32Array(4)), (part) => part.toString(36)).join("-");
      last.current = { request, key };
    }
    return last.current.key;
  };
}

function findRemovedTabs(plan: PlanFlowsResponse | undefined): string[] {
  return (plan?.diff?.containers ?? []).flatMap(({ kind, id, name = id, nodes }) =>
    kind === ContainerKind.TAB && nodes.some((node) => node.id === id && node.change === NodeChange.REMOVED)
      ? [name]
      : [],
  );
}

function RemovedTabs({ names }: { readonly names: readonly string[] }): ReactNode {
  return names.length === 0 ? null : <p>{visibleText(texts.removesTabs(names))}</p>;
}

function isReplaced({ rev }: PlanFlowsResponse, { revisions }: Deployments): boolean {
  return revisions.some(({ parent }) => parent === rev);
}

/** The state before the service responds, which it does after the observation of the flows. */
function Progress({
  base,
  options: { wait, undo },
  deployments,
}: {
  readonly base: string | undefined;
  readonly options: Options;
  readonly deployments: Deployments;
}): ReactNode {
  const revision = deployments.revisions.findLast(({ parent }) => parent === base);
  const seconds = Number(wait === "" && undo ? defaultOptions.wait : wait);
  return (
    <section className="card">
      <StepHeading>Deploying …</StepHeading>
      <output className="outcome-title">
        {revision === undefined ? null : (
          <>
            <span>
              <RevisionLink rev={revision.rev} /> {seconds > 0 ? texts.observed(seconds) : null}
            </span>
            <OutcomeSentence outcome={revision.outcome} />
          </>
        )}
      </output>
    </section>
  );
}
