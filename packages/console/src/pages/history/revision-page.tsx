import { lazy, type ReactNode, Suspense, useState } from "react";
import { useMutation, useQuery } from "@connectrpc/connect-query";
import { type Revision, RevisionsService } from "@flowgate/client";
import { Link } from "wouter";
import { useRefresh } from "../../api/refresh.ts";
import { DialogButton, DialogForm } from "../../components/dialog.tsx";
import { Loading, Problem } from "../../components/notice.tsx";
import { Page, Result } from "../../components/page.tsx";
import {
  deploymentTypes,
  RevisionCauseText,
  RevisionLink,
  RevisionOutcome,
  shortRev,
} from "../../components/revision.tsx";
import { Sign } from "../../components/sign.tsx";
import { visibleText } from "../../components/visible-text.ts";
import { useSession } from "../../session.tsx";
import { texts } from "../../texts/history.ts";
import { texts as revisionTexts } from "../../texts/revision.ts";
import { RestoreButton } from "./restore-button.tsx";
import { describeCaller } from "../../components/describe.ts";
import { Fact } from "../../components/fact.tsx";
import { formatBytes } from "../../components/format.ts";
import { ExactTime, Time } from "../../components/time.tsx";
import { DiffFlows } from "../../components/flows-diff/flows-diff.tsx";
import { useFilters } from "../../components/filters.tsx";
import { useRecentRevisions } from "./active-revision.ts";

export function RevisionPage({ rev }: { readonly rev: string }): ReactNode {
  const revision = useQuery(RevisionsService.method.getRevision, { rev });
  const { data } = revision;
  return (
    <Page title={revisionTexts.rev(shortRev(rev))} actions={data && <Actions revision={data} />}>
      <p className="history-back">
        <Link href="/history">All revisions</Link>
      </p>
      <Result of={revision}>
        {(revision) => (
          <>
            <section className="card">
              <h2 className="revision-title">
                <span className={revision.message === "" ? "muted" : ""}>
                  {revision.message === "" ? "No message" : <bdi>{visibleText(revision.message)}</bdi>}
                </span>
                {revision.active ? <Sign tone="info">{texts.active}</Sign> : null}
                {revision.pinned ? <Sign tone="neutral">{texts.pinned}</Sign> : null}
              </h2>
              <RevisionFacts revision={revision} />
            </section>
            <Difference revision={revision} />
          </>
        )}
      </Result>
    </Page>
  );
}

function Actions({ revision }: { readonly revision: Revision }): ReactNode {
  const { can } = useSession();
  return (
    <>
      {can("revisions.write") ? (
        <>
          <PinButton revision={revision} />
          <MessageButton revision={revision} />
        </>
      ) : null}
      <RestoreButton target={revision} />
    </>
  );
}

function useUpdate() {
  const refresh = useRefresh(RevisionsService.method.getRevision, RevisionsService.method.listRevisions);
  return useMutation(RevisionsService.method.updateRevision, { onSuccess: refresh });
}

function PinButton({ revision: { rev, pinned } }: { readonly revision: Revision }): ReactNode {
  const { mutate, error, isPending } = useUpdate();
  return (
    <>
      {error === null ? null : <Problem error={error} />}
      <button
        type="button"
        title="A pinned revision is never removed from the history."
        aria-disabled={isPending}
        onClick={() => (isPending ? undefined : mutate({ rev, pinned: !pinned }))}
      >
        {pinned ? "Unpin" : "Pin"}
      </button>
    </>
  );
}

const maxMessageLength = 1_000;

function MessageButton({ revision: { rev, message } }: { readonly revision: Revision }): ReactNode {
  const [entered, setEntered] = useState(message);
  const { mutate, error, isPending, reset } = useUpdate();
  return (
    <DialogButton
      label={texts.editMessage}
      title={texts.editMessage}
      onOpen={() => setEntered(message)}
      onClose={reset}
    >
      {(close) => (
        <DialogForm
          error={error}
          submit="Save"
          isDisabled={isPending}
          onSubmit={() => mutate({ rev, message: entered }, { onSuccess: close })}
          onClose={close}
        >
          <label>
            Message
            <textarea
              rows={3}
              maxLength={maxMessageLength}
              value={entered}
              onChange={({ target }) => setEntered(target.value)}
            />
          </label>
        </DialogForm>
      )}
    </DialogButton>
  );
}

function RevisionFacts({ revision }: { readonly revision: Revision }): ReactNode {
  const { rev, parent, createTime, deploymentType, missingTypes, approvedBy, proposalId } = revision;
  const { nodeCount, sizeBytes, clientAddress, protocol, requestId, tokenId } = revision;
  const { approvedByTokenId, approvedByTokenName } = revision;
  return (
    <dl className="facts">
      <Fact name="Outcome">
        <RevisionOutcome of={revision} />
      </Fact>
      <Fact name="Missing types">{missingTypes.map(visibleText).join(", ")}</Fact>
      <Fact name="Deployed by">
        <bdi>{visibleText(describeCaller(revision))}</bdi>
        {tokenId === "" ? null : <span className="muted"> ({tokenId})</span>}
      </Fact>
      {approvedBy === "" ? null : (
        <Fact name="Approved by">
          <bdi>{visibleText(describeCaller({ user: approvedBy, tokenName: approvedByTokenName }))}</bdi>
          {approvedByTokenId === "" ? null : <span className="muted"> ({approvedByTokenId})</span>}
        </Fact>
      )}
      <Fact name="Proposal">
        {proposalId && <Link href={`/proposals/${encodeURIComponent(proposalId)}`}>{proposalId}</Link>}
      </Fact>
      <Fact name="Time">
        <ExactTime at={createTime} />{" "}
        <span className="muted">
          (<Time at={createTime} />)
        </span>
      </Fact>
      <Fact name="Cause">
        <RevisionCauseText of={revision} />
      </Fact>
      <Fact name="Restarted">{deploymentTypes[deploymentType] ?? ""}</Fact>
      <Fact name="Revision">
        <code>{rev}</code>
      </Fact>
      <Fact name="Replaced">{parent === "" ? "none, it is the first" : <RevisionLink rev={parent} />}</Fact>
      <Fact name="Size">{texts.size(nodeCount, formatBytes(sizeBytes))}</Fact>
      <Fact name="Sent from">{visibleText(texts.origin(clientAddress, protocol))}</Fact>
      <Fact name="Request">{requestId && <code>{visibleText(requestId)}</code>}</Fact>
    </dl>
  );
}

const DifferencePicture = lazy(async () => ({ default: (await import("./difference-picture.tsx")).DifferencePicture }));

function Difference({ revision: { rev, parent } }: { readonly revision: Revision }): ReactNode {
  const [{ base, view }, change] = useFilters(["base", "view"]);
  const isPicture = view === "picture";
  const { revisions, active } = useRecentRevisions();
  const isWaiting = base === "active" && active === undefined;
  const difference = useQuery(
    RevisionsService.method.diffRevision,
    { rev, base: base === "active" ? (active?.rev ?? "") : base },
    { enabled: !isWaiting },
  );
  return (
    <section className="card">
      <div className="difference-heading">
        <h2>Difference</h2>
        <label className="inline">
          Compared with
          <select value={base} onChange={({ target }) => change({ base: target.value })}>
            <option value="">
              {parent === "" ? "No flows, since it is the first" : "The revision that it replaced"}
            </option>
            {active?.rev === rev ? null : <option value="active">The active revision</option>}
            {revisions
              .filter((each) => each.rev !== rev)
              .map((each) => (
                <option key={each.rev} value={each.rev}>
                  {describe(each)}
                </option>
              ))}
            {base === "" || base === "active" || revisions.some((each) => each.rev === base) ? null : (
              <option value={base}>{shortRev(base)}</option>
            )}
          </select>
        </label>
      </div>
      <div className="view-switch">
        <button type="button" aria-pressed={!isPicture} onClick={() => change({ view: "" })}>
          Text
        </button>
        <button type="button" aria-pressed={isPicture} onClick={() => change({ view: "picture" })}>
          Picture
        </button>
      </div>
      <Result of={difference}>
        {({ diff, base, rev }) =>
          diff === undefined ? null : isPicture ? (
            <Suspense fallback={<Loading />}>
              <DifferencePicture key={`${base} ${rev}`} diff={diff} base={base} rev={rev} />
            </Suspense>
          ) : (
            <DiffFlows diff={diff} />
          )
        }
      </Result>
    </section>
  );
}

const maxShownLength = 60;

function describe({ rev, message, user }: Revision): string {
  const short = message.length <= maxShownLength ? message : `${message.slice(0, maxShownLength)}…`;
  return [shortRev(rev), visibleText(short), visibleText(user)].filter((part) => part !== "").join(" · ");
}
