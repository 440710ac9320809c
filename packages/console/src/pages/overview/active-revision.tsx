import type { ReactNode } from "react";
import { Link } from "wouter";
import type { Revision } from "@flowgate/client";
import { describeCaller } from "../../components/describe.ts";
import { OutcomeSign } from "../../components/sign.tsx";
import { Time } from "../../components/time.tsx";
import { useSession } from "../../session.tsx";
import { texts as all } from "../../texts/overview.ts";

const texts = all.active;

/** The active revision, with the way to undo it. */
export function ActiveRevision({ revision }: { readonly revision: Revision | undefined }): ReactNode {
  const { can } = useSession();
  return (
    <section className="card" aria-labelledby="overview-active">
      <h2 id="overview-active">{texts.title}</h2>
      {revision === undefined ? (
        <p className="muted">{texts.none}</p>
      ) : (
        <>
          <Facts revision={revision} />
          <div className="actions">
            <Link href={`/history/${revision.rev}`} className="button">
              {texts.history}
            </Link>
            {can("flows.write") && revision.parent !== "" ? (
              <Link href={`/history/${revision.rev}`} className="button" aria-label={texts.undoLabel}>
                {texts.undo}
              </Link>
            ) : null}
          </div>
        </>
      )}
    </section>
  );
}

function Facts({ revision }: { readonly revision: Revision }): ReactNode {
  const { rev, message, createTime, approvedBy, approvedByTokenName, outcome, outcomeMessage, nodeCount } = revision;
  return (
    <dl className="facts">
      <dt>{texts.revision}</dt>
      <dd>
        <code>{rev.slice(0, 8)}</code> <OutcomeSign outcome={outcome} />
      </dd>
      {outcomeMessage === "" ? null : (
        <>
          <dt>{texts.reason}</dt>
          <dd>{outcomeMessage}</dd>
        </>
      )}
      <dt>{texts.message}</dt>
      <dd className={message === "" ? "muted" : undefined}>{message === "" ? texts.noMessage : message}</dd>
      <dt>{texts.by}</dt>
      <dd>
        <Time at={createTime} /> {texts.deployedBy(describeCaller(revision))}
      </dd>
      {approvedBy === "" ? null : (
        <>
          <dt>{texts.approvedBy}</dt>
          <dd>{describeCaller({ user: approvedBy, tokenName: approvedByTokenName })}</dd>
        </>
      )}
      <dt>{texts.nodes}</dt>
      <dd>{nodeCount}</dd>
    </dl>
  );
}
