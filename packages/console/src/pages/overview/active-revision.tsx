import type { ReactNode } from "react";
import { Link } from "wouter";
import type { Revision } from "@flowgate/client";
import { Fact } from "../../components/fact.tsx";
import { RevisionAuthor, RevisionLink, RevisionOutcome } from "../../components/revision.tsx";
import { Time } from "../../components/time.tsx";
import { visibleText } from "../../components/visible-text.ts";
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
            <Link href={`/history/${encodeURIComponent(revision.rev)}`} className="button">
              {can("flows.write") && revision.parent !== "" ? texts.undo : texts.history}
            </Link>
          </div>
        </>
      )}
    </section>
  );
}

function Facts({ revision }: { readonly revision: Revision }): ReactNode {
  const { rev, message, createTime, nodeCount } = revision;
  return (
    <dl className="facts">
      <Fact name={texts.revision}>
        <RevisionLink rev={rev} /> <RevisionOutcome of={revision} />
      </Fact>
      <Fact name={texts.message}>
        {message === "" ? <span className="muted">{texts.noMessage}</span> : <bdi>{visibleText(message)}</bdi>}
      </Fact>
      <Fact name={texts.by}>
        <RevisionAuthor of={revision} />, <Time at={createTime} />
      </Fact>
      <Fact name={texts.nodes}>{nodeCount}</Fact>
    </dl>
  );
}
