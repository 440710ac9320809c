import { type ReactNode, useId } from "react";
import { useQuery } from "@connectrpc/connect-query";
import { SettingsService } from "@flowgate/client";
import { Field } from "../../components/field.tsx";
import { visibleText } from "../../components/visible-text.ts";
import { useSession } from "../../session.tsx";
import { permissionTexts, roleTexts } from "../../texts/permissions.ts";
import { texts } from "../../texts/tokens.ts";
import { type ScopeChoice, withName } from "./scope.ts";

/** Chooses what a token may do, with what each permission means. */
export function ScopeField({
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
    <fieldset className="tokens-scope">
      <legend>{texts.permissions}</legend>
      {choice(false, texts.selected)}
      {choice(true, texts.everything)}
      {value.isEverything ? (
        <p className="muted">{texts.everythingHint}</p>
      ) : (
        <>
          <fieldset>
            <legend>{texts.roles}</legend>
            <p className="muted">{texts.rolesHint}</p>
            {roles.map(([name, meaning]) => option(name, meaning, false))}
          </fieldset>
          <fieldset>
            <legend>{texts.single}</legend>
            {Object.entries(permissionTexts).map(([name, meaning]) => option(name, meaning, !can(name)))}
          </fieldset>
          <Field label={texts.others} hint={texts.othersHint}>
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

/** Those of the configuration with what they permit; those that each service has, if the user may not read the others. */
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
        {meaning} {isDisabled ? texts.notYours : ""}
      </span>
    </div>
  );
}
