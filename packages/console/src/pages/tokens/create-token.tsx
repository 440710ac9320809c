import { type ReactNode, useState } from "react";
import { callUnaryMethod, useTransport } from "@connectrpc/connect-query";
import { TokensService } from "@flowgate/client";
import { useRefresh } from "../../api/refresh.ts";
import { useAction } from "../../components/action.ts";
import { CopyButton } from "../../components/copy.tsx";
import { Dialog, DialogForm } from "../../components/dialog.tsx";
import { Field } from "../../components/field.tsx";
import { texts } from "../../texts/tokens.ts";
import { ScopeField } from "./scope-field.tsx";
import { noScope, requestedScope } from "./scope.ts";

/** Creates a token, whose secret is in the dialog only, and is forgotten with it. */
export function CreateToken(): ReactNode {
  const [isOpen, setOpen] = useState(false);
  const [secret, setSecret] = useState<string>();
  const close = (): void => {
    setOpen(false);
    setSecret(undefined);
  };
  return (
    <>
      <button type="button" className="primary" onClick={() => setOpen(true)}>
        {texts.create}
      </button>
      <Dialog
        title={secret === undefined ? texts.create : texts.createdTitle}
        description={secret === undefined ? texts.createHint : texts.secretHint}
        isOpen={isOpen}
        onClose={close}
      >
        {secret === undefined ? (
          <TokenForm onCreated={setSecret} onCancel={close} />
        ) : (
          <Secret secret={secret} onClose={close} />
        )}
      </Dialog>
    </>
  );
}

function TokenForm({
  onCreated,
  onCancel,
}: {
  readonly onCreated: (secret: string) => void;
  readonly onCancel: () => void;
}): ReactNode {
  const transport = useTransport();
  const refresh = useRefresh(TokensService.method.listTokens);
  const [name, setName] = useState("");
  const [lifetime, setLifetime] = useState(0);
  const [scope, setScope] = useState(noScope);
  const { isBusy, error, run } = useAction();

  const create = async (): Promise<void> => {
    const requested = requestedScope(scope);
    if (requested === "") {
      throw new Error(texts.nothingSelected);
    }
    const expiresIn = texts.lifetimes[lifetime]?.seconds;
    const { accessToken } = await callUnaryMethod(transport, TokensService.method.createToken, {
      name: name.trim(),
      ...(requested !== undefined && { scope: requested }),
      ...(expiresIn !== undefined && { expiresIn }),
    });
    onCreated(accessToken);
    await refresh();
  };
  return (
    <DialogForm
      className="tokens-form"
      error={error}
      submit={isBusy ? texts.creating : texts.submit}
      isDisabled={isBusy}
      onSubmit={() => void run(create)}
      onClose={onCancel}
    >
      <Field label={texts.nameLabel} hint={texts.nameHint}>
        {(attributes) => (
          <input
            {...attributes}
            required
            maxLength={100}
            autoComplete="off"
            value={name}
            onChange={(event) => setName(event.target.value)}
          />
        )}
      </Field>
      <Field label={texts.lifetime}>
        {(attributes) => (
          <select {...attributes} value={lifetime} onChange={(event) => setLifetime(Number(event.target.value))}>
            {texts.lifetimes.map(({ label }, index) => (
              <option key={label} value={index}>
                {label}
              </option>
            ))}
          </select>
        )}
      </Field>
      <ScopeField value={scope} onChange={setScope} />
    </DialogForm>
  );
}

function Secret({ secret, onClose }: { readonly secret: string; readonly onClose: () => void }): ReactNode {
  return (
    <>
      <Field label={texts.secret}>
        {(attributes) => (
          <input
            {...attributes}
            className="tokens-secret"
            readOnly
            value={secret}
            onFocus={({ target }) => target.select()}
          />
        )}
      </Field>
      <div className="dialog-actions">
        <CopyButton text={secret} />
        <button type="button" className="primary" onClick={onClose}>
          {texts.done}
        </button>
      </div>
    </>
  );
}
