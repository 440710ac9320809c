import { type ReactNode, useState } from "react";
import { callUnaryMethod, useTransport } from "@connectrpc/connect-query";
import {
  FlowsService,
  type PlanFlowsResponse,
  type Proposal,
  ProposalsService,
  RevisionsService,
  type SetFlowsResponse,
} from "@flowgate/client";
import { useRefresh } from "../../api/refresh.ts";
import { useAction } from "../../components/action.ts";
import { describeCaller } from "../../components/describe.ts";
import { DialogButton, DialogForm } from "../../components/dialog.tsx";
import { Field } from "../../components/field.tsx";
import { Harm } from "../../components/plan.tsx";
import { visibleText } from "../../components/visible-text.ts";
import { texts } from "../../texts/proposals.ts";
import { type Decisions, describeChanges, describeModule } from "./view.ts";

export function DecisionButtons({
  proposal,
  plan,
  decisions: { approve, reject, withdraw },
  onDeployed,
}: {
  readonly proposal: Proposal;
  /** Undefined: there is no plan, or it is not loaded yet. */
  readonly plan: PlanFlowsResponse | undefined;
  readonly decisions: Decisions;
  readonly onDeployed: (response: SetFlowsResponse) => void;
}): ReactNode {
  const transport = useTransport();
  const { id, digest } = proposal;
  const { approveProposal, rejectProposal, withdrawProposal } = ProposalsService.method;
  if (!approve && !reject && !withdraw) {
    return null;
  }
  return (
    <div className="actions">
      {approve ? (
        <Decision
          label="Approve"
          title="Approve and deploy this proposal?"
          description={<Approved proposal={proposal} plan={plan} />}
          reason="Comment"
          confirm="Approve and deploy"
          isPrimary
          // Only a plan that was shown can be approved.
          isDisabled={plan === undefined}
          onConfirm={async (reason) =>
            onDeployed(await callUnaryMethod(transport, approveProposal, { id, digest, reason }))
          }
        />
      ) : null}
      {reject ? (
        <Decision
          label={texts.reject}
          title="Reject this proposal?"
          description="It can't be approved any more then. The proposer sees the reason."
          reason={texts.why}
          isReasonRequired
          confirm={texts.reject}
          onConfirm={(reason) => callUnaryMethod(transport, rejectProposal, { id, reason })}
        />
      ) : null}
      {withdraw ? (
        <Decision
          label={texts.withdraw}
          title="Withdraw this proposal?"
          description="It can't be approved any more then."
          reason={texts.why}
          confirm={texts.withdraw}
          onConfirm={(reason) => callUnaryMethod(transport, withdrawProposal, { id, reason })}
        />
      ) : null}
    </div>
  );
}

function Approved({
  proposal,
  plan,
}: {
  readonly proposal: Proposal;
  readonly plan: PlanFlowsResponse | undefined;
}): ReactNode {
  const { user, tokenName, message, nodeCount, digest, modules } = proposal;
  return (
    <>
      <p>{texts.approveHint(visibleText(describeCaller({ user, tokenName })))}</p>
      <ul>
        <li>{visibleText(message) || texts.noMessage}</li>
        <li>
          {texts.changes}: {describeChanges(proposal)}; {texts.nodes(nodeCount)}
        </li>
        {modules.length === 0 ? null : (
          <li>
            {texts.modules}: {modules.map(describeModule).join(", ")}
          </li>
        )}
      </ul>
      {plan === undefined ? null : <Harm plan={plan} modules={modules} />}
      <p>
        Its digest, which the audit log has too: <code className="digest">{visibleText(digest)}</code>
      </p>
    </>
  );
}

/** Asks for a reason before something is decided. The dialog stays open in the meantime, and shows why it has failed. */
function Decision({
  label,
  title,
  description,
  reason: reasonLabel,
  isReasonRequired = false,
  confirm,
  isPrimary = false,
  isDisabled = false,
  onConfirm,
}: {
  readonly label: string;
  readonly title: string;
  readonly description: ReactNode;
  readonly reason: string;
  readonly isReasonRequired?: boolean;
  readonly confirm: string;
  readonly isPrimary?: boolean;
  readonly isDisabled?: boolean;
  readonly onConfirm: (reason: string) => Promise<unknown>;
}): ReactNode {
  const [reason, setReason] = useState("");
  const { isBusy, error, run, reset } = useAction();
  const refresh = useRefresh(
    ProposalsService.method.getProposal,
    ProposalsService.method.listProposals,
    FlowsService.method.getFlows,
    RevisionsService.method.listRevisions,
  );
  const decide = async (close: () => void): Promise<void> => {
    await run(() => onConfirm(reason.trim()).then(close));
    // A failure may mean that someone else has decided.
    await refresh();
  };
  return (
    <DialogButton
      label={label}
      className={isPrimary ? "primary" : ""}
      isDisabled={isDisabled}
      title={title}
      description={description}
      onClose={reset}
    >
      {(close) => (
        <DialogForm
          error={error}
          submit={isBusy ? "One moment …" : confirm}
          isDangerous={!isPrimary}
          isDisabled={isBusy}
          onSubmit={() => void decide(close)}
          onClose={close}
        >
          <Field label={reasonLabel}>
            {(attributes) => (
              <input
                {...attributes}
                type="text"
                maxLength={1000}
                required={isReasonRequired}
                value={reason}
                onChange={({ target }) => setReason(target.value)}
              />
            )}
          </Field>
        </DialogForm>
      )}
    </DialogButton>
  );
}
