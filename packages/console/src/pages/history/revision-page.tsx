import { type ReactNode, useState } from "react";
import { useMutation, useQuery } from "@connectrpc/connect-query";
import { type Revision, RevisionsService } from "@flowgate/client";
import { Link } from "wouter";
import { useRefresh } from "../../api/refresh.ts";
import { Dialog, DialogForm } from "../../components/dialog.tsx";
import { Problem } from "../../components/notice.tsx";
import { Page, Result } from "../../components/page.tsx";
import { shortRev } from "../../components/revision.tsx";
import { Sign } from "../../components/sign.tsx";
import { visibleText } from "../../components/visible-text.ts";
import { useSession } from "../../session.tsx";
import { texts } from "../../texts/history.ts";
import { texts as revisionTexts } from "../../texts/revision.ts";
import { Difference } from "./difference.tsx";
import { RestoreButton } from "./restore-button.tsx";
import { RevisionFacts } from "./revision-facts.tsx";

/** One revision: its facts, what it changed, and what can be done with it. */
export function RevisionPage({ rev }: { readonly rev: string }): ReactNode {
  const revision = useQuery(RevisionsService.method.getRevision, { rev });
  const { data } = revision;
  return (
    <Page title={revisionTexts.rev(shortRev(rev))} actions={data && <Actions revision={data} />}>
      <p className="history-back">
        <Link href="/history">{texts.allRevisions}</Link>
      </p>
      <Result of={revision}>
        {(revision) => (
          <>
            <section className="card">
              <h2 className="revision-title">
                <span className={revision.message === "" ? "muted" : ""}>
                  {revision.message === "" ? texts.noMessage : <bdi>{visibleText(revision.message)}</bdi>}
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
        title={texts.pinHint}
        aria-disabled={isPending}
        onClick={() => (isPending ? undefined : mutate({ rev, pinned: !pinned }))}
      >
        {pinned ? texts.unpin : texts.pin}
      </button>
    </>
  );
}

const maxMessageLength = 1_000;

function MessageButton({ revision: { rev, message } }: { readonly revision: Revision }): ReactNode {
  const [isOpen, setOpen] = useState(false);
  const [entered, setEntered] = useState(message);
  const { mutate, error, isPending, reset } = useUpdate();
  const open = (): void => {
    setEntered(message);
    setOpen(true);
  };
  const close = (): void => {
    setOpen(false);
    reset();
  };
  return (
    <>
      <button type="button" onClick={open}>
        {texts.editMessage}
      </button>
      <Dialog title={texts.editMessage} isOpen={isOpen} onClose={close}>
        <DialogForm
          className="history-form"
          error={error}
          submit={texts.save}
          isDisabled={isPending}
          onSubmit={() => mutate({ rev, message: entered }, { onSuccess: close })}
          onClose={close}
        >
          <label>
            {texts.message}
            <textarea
              rows={3}
              maxLength={maxMessageLength}
              value={entered}
              onChange={({ target }) => setEntered(target.value)}
            />
          </label>
        </DialogForm>
      </Dialog>
    </>
  );
}
