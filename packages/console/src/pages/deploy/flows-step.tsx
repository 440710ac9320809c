import { type DragEvent, type ReactNode, useEffect, useId, useRef, useState } from "react";
import { Problem } from "../../components/notice.tsx";
import { RevisionLink } from "../../components/revision.tsx";
import { StepHeading } from "../../components/step-heading.tsx";
import { visibleText } from "../../components/visible-text.ts";
import { texts } from "../../texts/deploy.ts";
import type { Target } from "./combine.ts";
import type { FlowsReader } from "./flows-reader.ts";
import type { Prepared, Summary } from "./flows-worker.ts";
import { SourceError, type SourceProblem } from "./source-problem.ts";

/** What someone has given so far. */
export type Draft = {
  /** A text that can be edited, or what is too large for that. */
  readonly input: string | Blob;
  /** Of a file. */
  readonly name: string;
  readonly target: Target;
  /** Undefined until it was read, or if it is no flows. */
  readonly summary: Summary | undefined;
};

export const emptyDraft: Draft = { input: "", name: "", target: "all", summary: undefined };

/** Text fields of browsers are slow with more. */
const maxEditableChars = 200_000;

const pauseMs = 400;

export function FlowsStep({
  reader,
  draft,
  takesFocus,
  onChange,
  onPrepared,
}: {
  readonly reader: FlowsReader;
  readonly draft: Draft;
  /** Whether someone has come back to this step. */
  readonly takesFocus: boolean;
  readonly onChange: (draft: Draft) => void;
  readonly onPrepared: (prepared: Prepared) => void;
}): ReactNode {
  const { isReading, error: readError } = useReading(reader, draft, onChange);
  const [error, setError] = useState<unknown>();
  const [isPreparing, setPreparing] = useState(false);
  const prepare = async (): Promise<void> => {
    setPreparing(true);
    setError(undefined);
    try {
      onPrepared(await reader.combine(draft.target));
    } catch (thrown) {
      setError(thrown);
      setPreparing(false);
    }
  };
  const failure = readError ?? error;
  return (
    <form
      className="deploy-step"
      onSubmit={(event) => {
        event.preventDefault();
        void prepare();
      }}
    >
      {takesFocus ? <StepHeading>{texts.steps.flows}</StepHeading> : <h2>{texts.steps.flows}</h2>}
      <Input draft={draft} onInput={(input, name) => onChange({ ...emptyDraft, input, name })} />
      <output className="muted">{isReading ? texts.reading : null}</output>
      {failure === undefined ? null : <ReadProblem error={failure} />}
      {draft.summary === undefined ? null : <SummaryView summary={draft.summary} />}
      {draft.summary === undefined ? null : (
        <Targets target={draft.target} onChange={(target) => onChange({ ...draft, target })} />
      )}
      <div className="actions">
        <button type="submit" className="primary" disabled={draft.summary === undefined || isPreparing}>
          {texts.plan}
        </button>
      </div>
    </form>
  );
}

/** Reads what is given after a pause in the typing. */
function useReading(
  reader: FlowsReader,
  draft: Draft,
  onChange: (draft: Draft) => void,
): { readonly isReading: boolean; readonly error: unknown } {
  const [result, setResult] = useState<{ readonly of: string | Blob; readonly error?: unknown }>();
  const latest = useRef({ draft, onChange });
  useEffect(() => {
    latest.current = { draft, onChange };
  });
  const { input } = draft;
  const isEmpty = typeof input === "string" && input.trim() === "";
  useEffect(() => {
    if (isEmpty) {
      return undefined;
    }
    let isCurrent = true;
    const timer = setTimeout(
      async () => {
        try {
          const summary = await reader.read(input);
          if (isCurrent) {
            const { draft: before, onChange: change } = latest.current;
            // Who comes back to the flows has chosen already.
            change({ ...before, summary, target: before.summary === undefined ? summary.target : before.target });
            setResult({ of: input });
          }
        } catch (error) {
          if (isCurrent) {
            setResult({ of: input, error });
          }
        }
      },
      typeof input === "string" ? pauseMs : 0,
    );
    return () => {
      isCurrent = false;
      clearTimeout(timer);
    };
  }, [reader, input, isEmpty]);
  const isRead = result?.of === input;
  return { isReading: !isEmpty && !isRead, error: isRead ? result.error : undefined };
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
      <p className="muted">{texts.intro}</p>
      <div className="actions">
        <label className="inline">
          {texts.chooseFile}
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
        <span className="muted">{texts.orDrop}</span>
      </div>
      {typeof input === "string" ? (
        <>
          <label htmlFor={field}>{texts.text}</label>
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
                onInput(new Blob([text]), texts.pasted);
              }
            }}
          />
        </>
      ) : (
        <div className="actions">
          <strong>{visibleText(texts.given(name, (input.size / 1e6).toFixed(1)))}</strong>
          <button type="button" onClick={() => onInput("", "")}>
            {texts.remove}
          </button>
        </div>
      )}
    </div>
  );
}

export function ReadProblem({ error }: { readonly error: unknown }): ReactNode {
  return error instanceof SourceError ? <SourceProblems problems={error.problems} /> : <Problem error={error} />;
}

function SourceProblems({ problems }: { readonly problems: readonly SourceProblem[] }): ReactNode {
  return (
    <div className="problem source-problems" role="alert">
      <p>{texts.problems.title}</p>
      <ul>
        {problems.map(({ line, column, path, message }) => (
          <li key={`${line}:${column} ${message}`}>
            {texts.problems.place(line, column)}
            {path === "" ? null : (
              <>
                , <code>{visibleText(path)}</code>
              </>
            )}
            : {visibleText(message)}
          </li>
        ))}
      </ul>
    </div>
  );
}

function SummaryView({ summary }: { readonly summary: Summary }): ReactNode {
  const { nodeCount, tabCount, rev, hasCredentials, modules } = summary;
  return (
    <output className="flows-summary">
      <span>{texts.summary(nodeCount, tabCount)}</span>
      {rev === undefined ? null : (
        <span>
          {texts.madeFrom} <RevisionLink rev={rev} />
        </span>
      )}
      {hasCredentials ? <span>{texts.hasCredentials}</span> : null}
      {modules.length === 0 ? null : (
        <span>
          {texts.installs(visibleText(modules.map(({ name, version }) => `${name} ${version}`.trimEnd()).join(", ")))}
        </span>
      )}
    </output>
  );
}

const targets = ["all", "replace", "copies"] as const satisfies Target[];

function Targets({
  target,
  onChange,
}: {
  readonly target: Target;
  readonly onChange: (target: Target) => void;
}): ReactNode {
  const name = useId();
  return (
    <fieldset className="targets">
      <legend>{texts.target}</legend>
      {targets.map((each) => (
        <label key={each} className="inline">
          <input type="radio" name={name} checked={target === each} onChange={() => onChange(each)} />
          <span>
            {texts.targets[each]}
            <span className="muted">{texts.targets[`${each}Hint`]}</span>
          </span>
        </label>
      ))}
    </fieldset>
  );
}
