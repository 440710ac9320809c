import { type ReactNode, useId } from "react";
import { DeploymentType, OnFailure } from "@flowgate/client";
import { texts as appTexts } from "../../texts/app.ts";
import { texts } from "../../texts/history.ts";

export type RestoreChoices = { readonly message: string; readonly type: DeploymentType; readonly onFailure: OnFailure };

const types = [
  [DeploymentType.FULL, "All nodes, in a new process"],
  [DeploymentType.FLOWS, "Nodes of modified flows"],
  [DeploymentType.NODES, "Modified nodes only"],
] as const;

const failures = [
  [OnFailure.KEEP, "Keep them"],
  [OnFailure.UNDO, "Return to the present flows"],
] as const;

export function RestoreForm({
  choices,
  submit,
  hint,
  isShown,
  isReady,
  isBusy,
  onChange,
  onSubmit,
  onClose,
}: {
  readonly choices: RestoreChoices;
  readonly submit: string;
  readonly hint: string | undefined;
  readonly isShown: boolean;
  readonly isReady: boolean;
  readonly isBusy: boolean;
  readonly onChange: (choices: RestoreChoices) => void;
  readonly onSubmit: () => void;
  readonly onClose: () => void;
}): ReactNode {
  const form = useId();
  return (
    <>
      {isShown ? (
        <form
          id={form}
          className="stack"
          onSubmit={(event) => {
            event.preventDefault();
            onSubmit();
          }}
        >
          <label>
            Message
            <input
              maxLength={1_000}
              placeholder="Why. It is kept with the new revision."
              value={choices.message}
              onChange={({ target }) => onChange({ ...choices, message: target.value })}
            />
          </label>
          <div className="filters">
            <label>
              Restart
              <select
                value={choices.type}
                onChange={({ target }) => onChange({ ...choices, type: Number(target.value) as DeploymentType })}
              >
                {types.map(([value, label]) => (
                  <option key={value} value={value}>
                    {label}
                  </option>
                ))}
              </select>
            </label>
            <label title={texts.onFailureHint}>
              If the flows fail
              <select
                value={choices.onFailure}
                onChange={({ target }) => onChange({ ...choices, onFailure: Number(target.value) as OnFailure })}
              >
                {failures.map(([value, label]) => (
                  <option key={value} value={value}>
                    {label}
                  </option>
                ))}
              </select>
            </label>
          </div>
          {choices.onFailure === OnFailure.UNDO ? <p className="muted">{texts.onFailureHint}</p> : null}
          {hint === undefined ? null : <p className="muted">{hint}</p>}
          {isBusy ? (
            <output>
              {choices.onFailure === OnFailure.UNDO ? "Deploying, and waiting for errors …" : "Deploying …"}
            </output>
          ) : null}
        </form>
      ) : null}
      <div className="dialog-actions">
        <button type="button" onClick={onClose}>
          {appTexts.cancel}
        </button>
        <button type="submit" form={form} className="primary" disabled={!isReady || isBusy}>
          {submit}
        </button>
      </div>
    </>
  );
}
