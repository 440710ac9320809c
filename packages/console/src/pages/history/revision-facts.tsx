import type { ReactNode } from "react";
import type { Revision } from "@flowgate/client";
import { Link } from "wouter";
import { RevisionLink, deploymentTypes, RevisionCauseText, RevisionOutcome } from "../../components/revision.tsx";
import { describeCaller } from "../../components/describe.ts";
import { Fact } from "../../components/fact.tsx";
import { formatBytes } from "../../components/format.ts";
import { ExactTime, Time } from "../../components/time.tsx";
import { visibleText } from "../../components/visible-text.ts";
import { texts } from "../../texts/history.ts";

/** What is known of a revision, apart from its message. */
export function RevisionFacts({ revision }: { readonly revision: Revision }): ReactNode {
  const { rev, parent, createTime, deploymentType, missingTypes, approvedBy, proposalId } = revision;
  const { nodeCount, sizeBytes, clientAddress, protocol, requestId, tokenId } = revision;
  const { approvedByTokenId, approvedByTokenName } = revision;
  return (
    <dl className="facts">
      <Fact name={texts.fact.outcome}>
        <RevisionOutcome of={revision} />
      </Fact>
      <Fact name={texts.fact.missingTypes}>{missingTypes.map(visibleText).join(", ")}</Fact>
      <Fact name={texts.fact.author}>
        <bdi>{visibleText(describeCaller(revision))}</bdi>
        {tokenId === "" ? null : <span className="muted"> ({tokenId})</span>}
      </Fact>
      {approvedBy === "" ? null : (
        <Fact name={texts.fact.approved}>
          <bdi>{visibleText(describeCaller({ user: approvedBy, tokenName: approvedByTokenName }))}</bdi>
          {approvedByTokenId === "" ? null : <span className="muted"> ({approvedByTokenId})</span>}
        </Fact>
      )}
      <Fact name={texts.fact.proposal}>
        {proposalId && <Link href={`/proposals/${encodeURIComponent(proposalId)}`}>{proposalId}</Link>}
      </Fact>
      <Fact name={texts.fact.time}>
        <ExactTime at={createTime} />{" "}
        <span className="muted">
          (<Time at={createTime} />)
        </span>
      </Fact>
      <Fact name={texts.fact.cause}>
        <RevisionCauseText of={revision} />
      </Fact>
      <Fact name={texts.fact.type}>{deploymentTypes[deploymentType] ?? ""}</Fact>
      <Fact name={texts.fact.rev}>
        <code>{rev}</code>
      </Fact>
      <Fact name={texts.fact.parent}>{parent === "" ? texts.first : <RevisionLink rev={parent} />}</Fact>
      <Fact name={texts.fact.size}>{texts.size(nodeCount, formatBytes(sizeBytes))}</Fact>
      <Fact name={texts.fact.origin}>{visibleText(texts.origin(clientAddress, protocol))}</Fact>
      <Fact name={texts.fact.request}>{requestId && <code>{visibleText(requestId)}</code>}</Fact>
    </dl>
  );
}
