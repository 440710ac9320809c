import { type FormEvent, type ReactNode, useState } from "react";
import type { MessageShape } from "@bufbuild/protobuf";
import { callUnaryMethod, useTransport } from "@connectrpc/connect-query";
import { AuditService, type VerifyAuditResponseSchema } from "@flowgate/client";
import { useAction } from "../../components/action.ts";
import { CopyButton } from "../../components/copy.tsx";
import { Dialog } from "../../components/dialog.tsx";
import { Field } from "../../components/field.tsx";
import { Problem } from "../../components/notice.tsx";
import { Sign } from "../../components/sign.tsx";
import { texts as appTexts } from "../../texts/app.ts";
import { texts } from "../../texts/audit.ts";

type Verification = MessageShape<typeof VerifyAuditResponseSchema>;

export function VerifyAudit(): ReactNode {
  const [isOpen, setOpen] = useState(false);
  return (
    <>
      <button type="button" onClick={() => setOpen(true)}>
        {texts.verify}
      </button>
      <Dialog title={texts.verifyTitle} description={texts.verifyHint} isOpen={isOpen} onClose={() => setOpen(false)}>
        <Verify onClose={() => setOpen(false)} />
      </Dialog>
    </>
  );
}

function Verify({ onClose }: { readonly onClose: () => void }): ReactNode {
  const transport = useTransport();
  const [head, setHead] = useState("");
  const [result, setResult] = useState<Verification>();
  const { isBusy, error, run } = useAction();

  const submit = (event: FormEvent): void => {
    event.preventDefault();
    setResult(undefined);
    // The log can change: an earlier result must not be shown again.
    void run(async () =>
      setResult(await callUnaryMethod(transport, AuditService.method.verifyAudit, { head: head.trim() })),
    );
  };

  return (
    <form className="audit-verify" onSubmit={submit}>
      <Field label={texts.head} hint={texts.headHint}>
        {(attributes) => (
          <input
            {...attributes}
            autoComplete="off"
            spellCheck={false}
            value={head}
            onChange={(event) => setHead(event.target.value)}
          />
        )}
      </Field>
      {error === undefined ? null : <Problem error={error} />}
      <output>{result === undefined ? null : <Verdict of={result} />}</output>
      <div className="dialog-actions">
        <button type="button" onClick={onClose}>
          {appTexts.close}
        </button>
        <button type="submit" className="primary" disabled={isBusy}>
          {isBusy ? texts.verifying : texts.verify}
        </button>
      </div>
    </form>
  );
}

function Verdict({ of: { intact, problem, entries, revisions, head } }: { readonly of: Verification }): ReactNode {
  return (
    <div className="card">
      <p>
        <Sign tone={intact ? "good" : "bad"}>{intact ? texts.intact : texts.broken}</Sign>
      </p>
      {intact ? (
        <>
          <p>{texts.checked(entries, revisions)}</p>
          <p>{texts.noteHead}</p>
          <div className="audit-head">
            <code>{head}</code>
            <CopyButton text={head} />
          </div>
        </>
      ) : (
        <>
          <dl className="facts">
            <dt>{texts.brokenAt}</dt>
            <dd>{problem}</dd>
            <dt>{texts.lastIntact}</dt>
            <dd>{head === "" ? texts.noneIntact : <code>{head}</code>}</dd>
          </dl>
          <p>{texts.brokenHint}</p>
        </>
      )}
    </div>
  );
}
