import { type DragEvent, type ReactNode, useId, useState } from "react";
import { apiUrl } from "../../api/paths.ts";
import { Problem } from "../../components/notice.tsx";
import { StepHeading } from "../../components/step-heading.tsx";
import { visibleText } from "../../components/visible-text.ts";
import { texts } from "../../texts/deploy.ts";
import { type Prepared, readFlows } from "./given-flows.ts";

export type Draft = {
  /** A text that can be edited, or a file too large for that. */
  readonly input: string | Blob;
  readonly name: string;
};

export const emptyDraft: Draft = { input: "", name: "" };

/** Text fields of browsers are slow with more. */
const maxEditableChars = 200_000;

export function FlowsStep({
  draft,
  takesFocus,
  onChange,
  onPrepared,
}: {
  readonly draft: Draft;
  readonly takesFocus: boolean;
  readonly onChange: (draft: Draft) => void;
  readonly onPrepared: (prepared: Prepared) => void;
}): ReactNode {
  const { input } = draft;
  const [error, setError] = useState<unknown>();
  const [isPreparing, setPreparing] = useState(false);
  const prepare = async (): Promise<void> => {
    setPreparing(true);
    setError(undefined);
    try {
      onPrepared(await prepareFlows(typeof input === "string" ? input : await input.text()));
    } catch (thrown) {
      setError(thrown);
      setPreparing(false);
    }
  };
  const isEmpty = typeof input === "string" && input.trim() === "";
  return (
    <form
      className="deploy-step"
      onSubmit={(event) => {
        event.preventDefault();
        void prepare();
      }}
    >
      {takesFocus ? <StepHeading>{texts.steps.flows}</StepHeading> : <h2>{texts.steps.flows}</h2>}
      <Input
        draft={draft}
        onInput={(given, name) => {
          setError(undefined);
          onChange({ input: given, name });
        }}
      />
      {error === undefined ? null : <Problem error={error} />}
      <div className="actions">
        <button type="submit" className="primary" disabled={isEmpty || isPreparing}>
          Plan
        </button>
      </div>
    </form>
  );
}

/** If the text is no flows, the error is the one with which the service refuses it. */
async function prepareFlows(text: string): Promise<Prepared> {
  try {
    return readFlows(text);
  } catch (error) {
    throw (await findRefusal(text)) ?? error;
  }
}

/** Why the service refuses a text, with the place; undefined if it does not. */
async function findRefusal(text: string): Promise<Error | undefined> {
  const response = await fetch(`${apiUrl}/flows:plan`, {
    method: "POST",
    headers: {
      "content-type": "application/json",
      "service-api-version": text.trimStart().startsWith("{") ? "v2" : "v1",
      "x-csrf-protection": "1",
    },
    body: text,
  });
  if (response.ok) {
    return undefined;
  }
  const { message } = (await response.json().catch(() => ({}))) as { readonly message?: string };
  return new Error(message ?? `${response.status} ${response.statusText}`);
}

function Input({
  draft: { input, name },
  onInput,
}: {
  readonly draft: Draft;
  readonly onInput: (input: string | Blob, name: string) => void;
}): ReactNode {
  const [isOver, setOver] = useState(false);
  const field = useId();
  const take = async (file: File): Promise<void> =>
    onInput(file.size <= maxEditableChars ? await file.text() : file, file.name);
  const drop = (event: DragEvent): void => {
    event.preventDefault();
    setOver(false);
    const [file] = event.dataTransfer.files;
    if (file !== undefined) {
      void take(file);
    }
  };
  return (
    <div
      className="flows-input"
      data-over={isOver}
      onDragOver={(event) => {
        event.preventDefault();
        setOver(true);
      }}
      onDragLeave={() => setOver(false)}
      onDrop={drop}
    >
      <p className="muted">
        All flows, as Node-RED exports them, or as the API and the command line return them: an array of nodes, or an
        object with flows. Active tabs and nodes that are not among them are removed.
      </p>
      <div className="actions">
        <label className="inline">
          Choose a file
          <input
            type="file"
            accept=".json,application/json"
            onChange={({ target }) => {
              const [file] = target.files ?? [];
              if (file !== undefined) {
                void take(file);
              }
              // The same file can be chosen again when it was changed.
              target.value = "";
            }}
          />
        </label>
        <span className="muted">or drop one here, or paste below.</span>
      </div>
      {typeof input === "string" ? (
        <>
          <label htmlFor={field}>Flows as JSON</label>
          <textarea
            id={field}
            rows={12}
            spellCheck={false}
            autoComplete="off"
            value={input}
            onChange={({ target }) => onInput(target.value, "")}
            onPaste={(event) => {
              const text = event.clipboardData.getData("text/plain");
              if (text.length > maxEditableChars) {
                event.preventDefault();
                onInput(new Blob([text]), "Pasted text");
              }
            }}
          />
        </>
      ) : (
        <div className="actions">
          <strong>{visibleText(texts.given(name, (input.size / 1e6).toFixed(1)))}</strong>
          <button type="button" onClick={() => onInput("", "")}>
            Remove
          </button>
        </div>
      )}
    </div>
  );
}
