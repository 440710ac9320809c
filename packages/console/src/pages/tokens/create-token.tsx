import { type ReactNode, useId, useState } from "react";
import { callUnaryMethod, useQuery, useTransport } from "@connectrpc/connect-query";
import { SettingsService, TokensService } from "@flowgate/client";
import { useRefresh } from "../../api/refresh.ts";
import { useAction } from "../../components/action.ts";
import { CopyButton } from "../../components/copy.tsx";
import { DialogButton, DialogForm } from "../../components/dialog.tsx";
import { Field } from "../../components/field.tsx";
import { texts } from "../../texts/tokens.ts";
import { noScope, requestedScope, type ScopeChoice, withName } from "./scope.ts";
import { visibleText } from "../../components/visible-text.ts";
import { useSession } from "../../session.tsx";
import { permissionTexts, roleTexts } from "../../texts/permissions.ts";

/** Creates a token, whose secret is in the dialog only, and is forgotten with it. */
export function CreateToken(): ReactNode {
  const [secret, setSecret] = useState<string>();
  return (
    <DialogButton
      label={texts.create}
      className="primary"
      title={secret === undefined ? texts.create : "The token was created"}
      description={
        secret === undefined
          ? "For a program that calls the API as you. It ends when your user is removed or gets another password."
          : "Copy it now: it is not stored, and is never shown again. Programs send it in the header Authorization: Bearer."
      }
      onClose={() => setSecret(undefined)}
    >
      {(close) =>
        secret === undefined ? (
          <TokenForm onCreated={setSecret} onCancel={close} />
        ) : (
          <Secret secret={secret} onClose={close} />
        )
      }
    </DialogButton>
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
      throw new Error("Select at least one permission.");
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
      error={error}
      submit={isBusy ? "Creating …" : "Create"}
      isDisabled={isBusy}
      onSubmit={() => void run(create)}
      onClose={onCancel}
    >
      <Field label="What it is for" hint="1 to 100 characters, such as nightly-backup.">
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
      <Field label="Lifetime">
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
      <Field label="Secret">
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
          Done
        </button>
      </div>
    </>
  );
}

/** Selects the permissions of a token, with the meaning of each. */
function ScopeField({
  value,
  onChange,
}: {
  readonly value: ScopeChoice;
  readonly onChange: (value: ScopeChoice) => void;
}): ReactNode {
  const { can } = useSession();
  const roles = useRoles();
  const choice = (isEverything: boolean, label: string): ReactNode => (
    <label className="inline">
      <input
        type="radio"
        name="scope"
        checked={value.isEverything === isEverything}
        onChange={() => onChange({ ...value, isEverything })}
      />
      {label}
    </label>
  );
  const option = (name: string, meaning: string, isDisabled: boolean): ReactNode => (
    <ScopeOption
      key={name}
      name={name}
      meaning={meaning}
      isDisabled={isDisabled}
      isSelected={value.selected.has(name)}
      onChange={(isSelected) => onChange(withName(value, name, isSelected))}
    />
  );
  return (
    <fieldset className="tokens-scope stack">
      <legend>Permissions</legend>
      {choice(false, "Only the selected ones")}
      {choice(true, "Everything that I may do")}
      {value.isEverything ? (
        <p className="muted">All permissions that you have now.</p>
      ) : (
        <>
          <fieldset>
            <legend>Roles</legend>
            <p className="muted">Sets of permissions, which the configuration of the service defines.</p>
            {roles.map(([name, meaning]) => option(name, meaning, false))}
          </fieldset>
          <fieldset>
            <legend>Single permissions</legend>
            {Object.entries(permissionTexts).map(([name, meaning]) => option(name, meaning, !can(name)))}
          </fieldset>
          <Field
            label="Others"
            hint="Names separated by spaces, such as roles of the configuration or flows.write@tab:Greetings."
          >
            {(attributes) => (
              <input
                {...attributes}
                autoComplete="off"
                spellCheck={false}
                value={value.others}
                onChange={(event) => onChange({ ...value, others: event.target.value })}
              />
            )}
          </Field>
        </>
      )}
    </fieldset>
  );
}

/** The configured roles with their permissions, or the built-in roles if the user may not read the settings. */
function useRoles(): readonly (readonly [name: string, meaning: string])[] {
  const { can } = useSession();
  const { data } = useQuery(SettingsService.method.getSettings, {}, { enabled: can("settings.read") });
  const configured = data?.roles ?? [];
  return configured.length === 0
    ? Object.entries(roleTexts)
    : configured.map(({ name, permissions }) => [name, visibleText(permissions.join(", "))]);
}

function ScopeOption({
  name,
  meaning,
  isSelected,
  isDisabled,
  onChange,
}: {
  readonly name: string;
  readonly meaning: string;
  readonly isSelected: boolean;
  readonly isDisabled: boolean;
  readonly onChange: (isSelected: boolean) => void;
}): ReactNode {
  const id = useId();
  return (
    <div className="tokens-option">
      <input
        id={id}
        type="checkbox"
        checked={isSelected}
        disabled={isDisabled}
        aria-describedby={`${id}-meaning`}
        onChange={(event) => onChange(event.target.checked)}
      />
      <label htmlFor={id}>
        <code>{name}</code>
      </label>
      <span id={`${id}-meaning`} className="muted">
        {meaning} {isDisabled ? "You do not have it yourself." : ""}
      </span>
    </div>
  );
}
