import { type KeyboardEvent, type ReactNode, useMemo, useState } from "react";
import { type ContainerDiff, ContainerKind, type FlowsDiff } from "@flowgate/client";
import { visibleText } from "../components/visible-text.ts";
import { texts } from "../texts/flow-view.ts";
import { ViewState } from "./canvas-view.ts";
import { drawDiff, type NodeChangeSummary } from "./diff.ts";
import { FlowCanvas } from "./flow-canvas.tsx";
import type { FlowNodes } from "./flow-nodes.ts";
import { measureText } from "./measure-text.ts";
import { noOverlays } from "./overlays.ts";
import { changeSigns } from "./theme.ts";

type Layout = "together" | "side-by-side";

/** A difference as a picture: each tab and subflow with both versions, and a list of what changes, to jump from change to change. */
export function FlowDiffView({
  before,
  after,
  diff,
  onSelect,
}: {
  readonly before: FlowNodes;
  readonly after: FlowNodes;
  readonly diff: FlowsDiff;
  readonly onSelect?: (id: string) => void;
}): ReactNode {
  const drawn = diff.containers.filter(({ kind }) => kind !== ContainerKind.GLOBAL);
  const [id, setId] = useState<string>();
  const [layout, setLayout] = useState<Layout>("together");
  const container = drawn.find((each) => each.id === id) ?? drawn[0];
  if (container === undefined) {
    return <p className="muted">Nothing is different here.</p>;
  }
  return (
    <div className="stack">
      <div className="filters">
        <label>
          Tab or subflow
          <select value={container.id} onChange={(event) => setId(event.target.value)}>
            {drawn.map((each) => (
              <option key={each.id} value={each.id}>
                {`${visibleText(each.name || each.id)} (${each.nodes.length})`}
              </option>
            ))}
          </select>
        </label>
        <label>
          Layout
          <select value={layout} onChange={(event) => setLayout(event.target.value as Layout)}>
            <option value="together">In one picture</option>
            <option value="side-by-side">Side by side</option>
          </select>
        </label>
      </div>
      <ContainerPictures
        key={container.id}
        before={before}
        after={after}
        container={container}
        layout={layout}
        onSelect={onSelect}
      />
    </div>
  );
}

function ContainerPictures({
  before,
  after,
  container,
  layout,
  onSelect,
}: {
  readonly before: FlowNodes;
  readonly after: FlowNodes;
  readonly container: ContainerDiff;
  readonly layout: Layout;
  readonly onSelect: ((id: string) => void) | undefined;
}): ReactNode {
  const pictures = useMemo(() => drawDiff({ before, after }, container, measureText()), [before, after, container]);
  const [state] = useState(() => new ViewState());
  const [selected, setSelected] = useState<string>();
  const overlays = useMemo(() => ({ ...noOverlays, selected }), [selected]);
  const { changes } = pictures;
  const current = changes.findIndex((change) => change.id === selected);
  const select = (id: string | undefined): void => {
    setSelected(id);
    if (id !== undefined) {
      onSelect?.(id);
    }
  };
  const step = (by: 1 | -1): void => {
    const from = current === -1 && by === -1 ? 0 : current;
    select(changes[(from + by + changes.length) % changes.length]?.id);
  };
  const onKeyDown = (event: KeyboardEvent): void => {
    if (!event.ctrlKey && !event.metaKey && !event.altKey && (event.key === "n" || event.key === "p")) {
      step(event.key === "n" ? 1 : -1);
    }
  };
  const name = container.name || container.id;
  const canvas = { overlays, state, focus: selected, onSelect: select };
  return (
    // The keys work wherever the focus is within it.
    // oxlint-disable-next-line jsx-a11y/no-static-element-interactions
    <div className="stack" onKeyDown={onKeyDown}>
      <p className="muted">
        Signs: + added, − removed, ~ changed, → moved. Wires: solid with + added, dashed with − removed.
      </p>
      <div className="flow-diff-canvases stack" data-layout={layout}>
        {layout === "together" ? (
          <FlowCanvas drawing={pictures.together} name={name} {...canvas} />
        ) : (
          <>
            <section>
              <h3>{texts.before}</h3>
              <FlowCanvas drawing={pictures.before} name={`${name}, ${texts.before}`} {...canvas} />
            </section>
            <section>
              <h3>{texts.after}</h3>
              <FlowCanvas drawing={pictures.after} name={`${name}, ${texts.after}`} {...canvas} />
            </section>
          </>
        )}
      </div>
      <div className="actions">
        <button type="button" onClick={() => step(-1)} disabled={changes.length === 0}>
          Previous change
        </button>
        <button type="button" onClick={() => step(1)} disabled={changes.length === 0}>
          Next change
        </button>
        <output className="muted">{current === -1 ? "" : texts.position(current + 1, changes.length)}</output>
      </div>
      <ChangeList changes={changes} selected={selected} onSelect={select} />
    </div>
  );
}

function ChangeList({
  changes,
  selected,
  onSelect,
}: {
  readonly changes: readonly NodeChangeSummary[];
  readonly selected: string | undefined;
  readonly onSelect: (id: string) => void;
}): ReactNode {
  return (
    <details className="flow-changes">
      <summary>
        Changes <span className="muted">{texts.nodeCount(changes.length)}</span>
      </summary>
      <p className="muted">Keys: n and p go to the next and the previous change.</p>
      <ol>
        {changes.map(({ id, name, type, kinds }) => (
          <li key={id}>
            <button
              type="button"
              className="plain"
              aria-current={id === selected ? "true" : undefined}
              onClick={() => onSelect(id)}
            >
              {kinds.map((kind) => (
                <span key={kind} className="flow-change-sign" data-change={kind} aria-hidden="true">
                  {kind === "rewired" ? "⤳" : changeSigns[kind]}
                </span>
              ))}
              <span>{visibleText(name)}</span>
              <span className="muted">
                {[visibleText(type), ...kinds.map((kind) => texts.changeNames[kind])].join(" · ")}
              </span>
            </button>
          </li>
        ))}
      </ol>
    </details>
  );
}
