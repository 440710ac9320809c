import { type ReactNode, useState } from "react";
import { Field } from "../../components/field.tsx";
import { visibleText } from "../../components/visible-text.ts";
import { texts } from "../../texts/context.ts";
import { EditValue } from "./edit-value.tsx";

export type Target = { readonly scope: string; readonly label: string };

/** Sets a value of a key that may not exist yet. */
export function AddValue({
  targets,
  stores,
  onSaved,
}: {
  readonly targets: readonly Target[];
  readonly stores: readonly string[];
  readonly onSaved: () => Promise<unknown>;
}): ReactNode {
  const [isOpen, setOpen] = useState(false);
  const [scope, setScope] = useState("global");
  const [store, setStore] = useState(stores[0] ?? "");
  const [key, setKey] = useState("");
  return (
    <>
      <button type="button" onClick={() => setOpen(true)}>
        {texts.add}
      </button>
      {isOpen ? (
        <EditValue
          title={texts.addTitle}
          description={texts.editHint}
          json=""
          store={store}
          place={key.trim() === "" ? "" : `${scope}/${key.trim()}`}
          onSaved={onSaved}
          onClose={() => setOpen(false)}
        >
          <Field label={texts.scope}>
            {(attributes) => (
              <select {...attributes} value={scope} onChange={(event) => setScope(event.target.value)}>
                {targets.map((target) => (
                  <option key={target.scope} value={target.scope}>
                    {visibleText(target.label)}
                  </option>
                ))}
              </select>
            )}
          </Field>
          {stores.length < 2 ? null : (
            <Field label={texts.store}>
              {(attributes) => (
                <select {...attributes} value={store} onChange={(event) => setStore(event.target.value)}>
                  {stores.map((each) => (
                    <option key={each}>{each}</option>
                  ))}
                </select>
              )}
            </Field>
          )}
          <Field label={texts.key} hint={texts.newKeyHint}>
            {(attributes) => (
              <input
                {...attributes}
                required
                autoComplete="off"
                autoCapitalize="none"
                spellCheck={false}
                value={key}
                onChange={(event) => setKey(event.target.value)}
              />
            )}
          </Field>
        </EditValue>
      ) : null}
    </>
  );
}
