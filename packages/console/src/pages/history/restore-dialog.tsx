import { type ReactNode, useMemo, useState } from "react";
import { callUnaryMethod, useMutation, useQuery, useTransport } from "@connectrpc/connect-query";
import { keepPreviousData, useQuery as usePlainQuery } from "@tanstack/react-query";
import {
  type DeploymentType,
  type DiffRevisionResponse,
  FlowsService,
  OnFailure,
  type PlanFlowsResponse,
  ProposalsService,
  type Revision,
  RevisionsService,
  RevisionView,
} from "@flowgate/client";
import { useRefresh } from "../../api/refresh.ts";
import { Dialog } from "../../components/dialog.tsx";
import { changesModules } from "../../components/losses.ts";
import { Loading, Problem } from "../../components/notice.tsx";
import { useDeployments } from "../../components/outcome.tsx";
import { Losses, Plan } from "../../components/plan.tsx";
import { RevisionAuthor, RevisionLink, RevisionOutcome } from "../../components/revision.tsx";
import { Time } from "../../components/time.tsx";
import { visibleText } from "../../components/visible-text.ts";
import { useSession } from "../../session.tsx";
import { texts } from "../../texts/history.ts";
import { defaultType, refusalOf } from "./restoration.ts";
import { Conflict, NeedsApproval, Proposed, Restored } from "./restore-outcome.tsx";
import { type RestoreChoices, RestoreForm } from "./restore-form.tsx";

/** Undoes the active revision, or restores an earlier one: shows first what that does, and then what came of it. */
export function RestoreDialog({
  kind,
  active: current,
  target,
  onClose,
}: {
  readonly kind: "undo" | "restore";
  /** The revision that is active now. The plan is about the one that was active when it was made. */
  readonly active: Revision;
  readonly target: string | undefined;
  readonly onClose: () => void;
}): ReactNode {
  const { can, username } = useSession();
  const [active, setActive] = useState(current);
  const [choices, setChoices] = useState<RestoreChoices>({
    message: "",
    type: defaultType(kind, active),
    onFailure: OnFailure.KEEP,
  });
  const rev = target ?? active.parent;
  const plan = usePlan(rev, active.rev, choices.type);
  const deployment = useDeployment();
  const proposal = useMutation(ProposalsService.method.createProposal);
  const deployments = useDeployments();
  const mayDeploy = can("flows.write");
  const fields = { message: choices.message, deploymentType: choices.type, onFailure: choices.onFailure };
  const deploy = (): void =>
    kind === "undo"
      ? deployment.undo.mutate({ ...fields, rev: active.rev })
      : deployment.restore.mutate({ ...fields, rev, activeRev: active.rev });
  const propose = (): void => {
    const { flows = [], modules = [] } = plan.content ?? {};
    proposal.mutate({ ...fields, rev: active.rev, flows, modules });
  };
  const planAgain = (): void => {
    deployment.reset();
    proposal.reset();
    setActive(current);
  };

  const failure = proposal.error ?? deployment.error ?? plan.error;
  const refusal = failure === null ? undefined : refusalOf(failure);
  const isOutdated = current.rev !== active.rev;
  const isBusy = deployment.isPending || proposal.isPending;

  function content(): ReactNode {
    if (deployment.data !== undefined) {
      return <Restored response={deployment.data} deployments={deployments} onClose={onClose} />;
    }
    if (proposal.data !== undefined) {
      return <Proposed proposal={proposal.data} onClose={onClose} />;
    }
    if (refusal?.kind === "conflict" || (isOutdated && !isBusy)) {
      const newest = isOutdated ? current : refusal?.kind === "conflict" ? (refusal.active ?? current) : current;
      return <Conflict active={newest} canPlanAgain={isOutdated} onPlanAgain={planAgain} onClose={onClose} />;
    }
    if (refusal?.kind === "approval") {
      return (
        <NeedsApproval
          canPropose={can("flows.propose") && username !== ""}
          isBusy={isBusy}
          onPropose={propose}
          onClose={onClose}
        />
      );
    }
    return (
      <>
        {plan.isReady ? (
          <RestorePlan plan={plan.plan} difference={plan.difference} target={plan.content} type={choices.type} />
        ) : plan.error === null ? (
          <Loading />
        ) : null}
        {refusal === undefined ? null : <Problem error={refusal.error} />}
        <RestoreForm
          choices={choices}
          submit={mayDeploy ? (kind === "undo" ? texts.undo : texts.restore) : texts.propose}
          hint={mayDeploy ? undefined : texts.proposalHint}
          isShown={plan.isReady}
          isReady={!plan.isStale}
          isBusy={isBusy}
          onChange={setChoices}
          onSubmit={mayDeploy ? deploy : propose}
          onClose={onClose}
        />
      </>
    );
  }
  return (
    <Dialog
      title={kind === "undo" ? "Undo the last deployment" : "Restore this revision"}
      description={<p>A new revision is created, so this can be undone as well.</p>}
      isOpen
      onClose={onClose}
    >
      <div className="restore">{content()}</div>
    </Dialog>
  );
}

/** Plans the deployment of a revision's flows in place of `activeRev`. */
function usePlan(rev: string, activeRev: string, deploymentType: DeploymentType) {
  const transport = useTransport();
  const difference = useQuery(RevisionsService.method.diffRevision, { rev, base: activeRev });
  const content = useQuery(RevisionsService.method.getRevision, { rev, view: RevisionView.FULL });
  const { data } = content;
  // By its own key: one with all flows would be large.
  const plan = usePlainQuery({
    queryKey: ["plan of a restore", rev, activeRev, deploymentType],
    enabled: data !== undefined,
    // The plan of the previous type remains until this one is known.
    placeholderData: keepPreviousData,
    queryFn: ({ signal }) =>
      callUnaryMethod(
        transport,
        FlowsService.method.planFlows,
        { flows: data?.flows ?? [], modules: data?.modules ?? [], rev: activeRev, deploymentType },
        { signal },
      ),
  });
  const error = difference.error ?? content.error ?? plan.error;
  return difference.data !== undefined && data !== undefined && plan.data !== undefined
    ? {
        isReady: true as const,
        isStale: plan.isPlaceholderData,
        difference: difference.data,
        content: data,
        plan: plan.data,
        error,
      }
    : { isReady: false as const, isStale: true, content: data, error };
}

function useDeployment() {
  const refresh = useRefresh(
    RevisionsService.method.listRevisions,
    RevisionsService.method.getRevision,
    FlowsService.method.getFlows,
  );
  const options = { onSettled: refresh };
  const undo = useMutation(FlowsService.method.undoFlows, options);
  const restore = useMutation(RevisionsService.method.restoreRevision, options);
  return {
    undo,
    restore,
    data: undo.data ?? restore.data,
    error: undo.error ?? restore.error,
    isPending: undo.isPending || restore.isPending,
    reset: () => {
      undo.reset();
      restore.reset();
    },
  };
}

function RestorePlan({
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
      <div className="restore-part stack">
        <p>
          Deploys the flows of <RevisionLink rev={target.rev} />{" "}
          {target.message === "" ? null : <q>{visibleText(target.message)}</q>} ({texts.by}{" "}
          <RevisionAuthor of={target} />, <Time at={target.createTime} />
          ). {"Outcome then:"} <RevisionOutcome of={target} />
        </p>
        <Losses type={type} nodes={plan.nodes} modules={modules} diff={diff} />
        {changesModules(modules) ? <p>Modules change, therefore all nodes restart.</p> : null}
      </div>
      <Plan plan={whole} modules={target.modules} nodes={target.flows} />
    </>
  );
}
