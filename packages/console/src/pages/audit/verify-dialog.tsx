import { type ReactNode, useState } from "react";
import type { MessageShape } from "@bufbuild/protobuf";
import { callUnaryMethod, useTransport } from "@connectrpc/connect-query";
import { AuditService, type VerifyAuditResponseSchema } from "@flowgate/client";
import { useAction } from "../../components/action.ts";
import { CopyButton } from "../../components/copy.tsx";
import { DialogButton, DialogForm } from "../../components/dialog.tsx";
import { Fact } from "../../components/fact.tsx";
import { Field } from "../../components/field.tsx";
import { Sign } from "../../components/sign.tsx";
import { texts as appTexts } from "../../texts/app.ts";
import { texts } from "../../texts/audit.ts";

type Verification = MessageShape<typeof VerifyAuditResponseSchema>;

export function VerifyAudit(): ReactNode {
  return (
    <DialogButton
      label={texts.verify}
      title="Verify the audit log"
      description="Checks the hash chain of all entries, and that the revisions which they record were neither changed nor removed."
    >
      {(close) => <Verify onClose={close} />}
    </DialogButton>
  );
}

function Verify({ onClose }: { readonly onClose: () => void }): ReactNode {
  const transport = useTransport();
  const [head, setHead] = useState("");
  const [result, setResult] = useState<Verification>();
  const { isBusy, error, run } = useAction();

  const verify = (): void => {
    setResult(undefined);
    // The log can change: an earlier result must not be shown again.
    void run(async () =>
      setResult(await callUnaryMethod(transport, AuditService.method.verifyAudit, { head: head.trim() })),
    );
  };

  return (
    <DialogForm
      error={error}
      submit={isBusy ? "Verifying …" : texts.verify}
      cancel={appTexts.close}
      isDisabled={isBusy}
      onSubmit={verify}
      onClose={onClose}
    >
      <Field
        label="Head of an earlier check"
        hint="Optional. The log must still contain it: this finds a log that was replaced as a whole."
      >
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
      <output>{result === undefined ? null : <Verdict of={result} />}</output>
    </DialogForm>
  );
}

function Verdict({ of: { intact, problem, entries, revisions, head } }: { readonly of: Verification }): ReactNode {
  return (
    <div className="card">
      <p>
        <Sign tone={intact ? "good" : "bad"}>
          {intact ? "The audit log is intact" : "The audit log did not pass the check"}
        </Sign>
      </p>
      {intact ? (
        <>
          <p>{texts.checked(entries, revisions)}</p>
          <p>Note this head in another place, to check against it later.</p>
          <div className="audit-head">
            <code>{head}</code>
            <CopyButton text={head} />
          </div>
        </>
      ) : (
        <>
          <dl className="facts">
            <Fact name="First inconsistency">{problem}</Fact>
            <Fact name="Last intact entry">{head === "" ? "none" : <code>{head}</code>}</Fact>
          </dl>
          <p>Entries after it prove nothing. Compare with an export that was made earlier, and with backups.</p>
        </>
      )}
    </div>
  );
}
