import { type ReactNode, useMemo, useState } from "react";
import { drawContainer } from "./drawing.ts";
import { FlowCanvas } from "./flow-canvas.tsx";
import type { FlowNode, FlowNodes } from "./flow-nodes.ts";
import { measureText } from "./measure-text.ts";
import { noOverlays, type Overlays } from "./overlays.ts";
import { visibleText } from "../components/visible-text.ts";
import { texts } from "../texts/flow-view.ts";
import { nameOf } from "./labels.ts";

export function FlowView({
  nodes,
  container,
  overlays = noOverlays,
  onSelect,
}: {
  readonly nodes: FlowNodes;
  readonly container: string;
  /** A new object for each change. */
  readonly overlays?: Overlays;
  readonly onSelect: (id: string | undefined) => void;
}): ReactNode {
  const drawing = useMemo(() => drawContainer(nodes, container, measureText()), [nodes, container]);
  return (
    <div className="stack">
      <FlowCanvas
        drawing={drawing}
        name={nodes.container(container)?.name ?? container}
        overlays={overlays}
        focus={overlays.selected}
        onSelect={onSelect}
      />
      <Outline nodes={nodes} container={container} overlays={overlays} onSelect={onSelect} />
    </div>
  );
}

/** A longer list is of no use to anyone; the filter is. */
const maxEntries = 200;

/** The nodes of a tab or subflow as a list: the content of the drawing for screen readers and the keyboard. */
function Outline({
  nodes,
  container,
  overlays,
  onSelect,
}: {
  readonly nodes: FlowNodes;
  readonly container: string;
  readonly overlays: Overlays;
  readonly onSelect: (id: string) => void;
}): ReactNode {
  const [filter, setFilter] = useState("");
  const entries = useMemo(
    () =>
      nodes
        .in(container)
        .filter(({ type }) => type !== "junction")
        .map((node) => ({ node, name: nameOf(node, nodes) }))
        .toSorted((one, other) => readingOrder(one.node, other.node)),
    [nodes, container],
  );
  const words = filter.toLowerCase();
  const found = entries.filter(({ node, name }) => `${name}\n${node.type}\n${node.id}`.toLowerCase().includes(words));
  return (
    <details className="flow-outline">
      <summary>
        Nodes <span className="muted">{texts.nodeCount(entries.length)}</span>
      </summary>
      <label>
        Filter the nodes
        <input type="search" value={filter} onChange={(event) => setFilter(event.target.value)} />
      </label>
      {found.length === 0 ? <p className="muted">No node matches.</p> : null}
      <ul>
        {found.slice(0, maxEntries).map(({ node, name }) => (
          <li key={node.id}>
            <Entry node={node} name={name} overlays={overlays} onSelect={onSelect} />
          </li>
        ))}
      </ul>
      {found.length > maxEntries ? <p className="muted">{texts.more(found.length - maxEntries)}</p> : null}
    </details>
  );
}

function Entry({
  node,
  name,
  overlays,
  onSelect,
}: {
  readonly node: FlowNode;
  readonly name: string;
  readonly overlays: Overlays;
  readonly onSelect: (id: string) => void;
}): ReactNode {
  const errors = overlays.errors.get(node.id) ?? 0;
  const status = overlays.statuses.get(node.id);
  const notes = [
    node.type,
    node.isDisabled ? "disabled" : "",
    errors > 0 ? texts.errors(errors) : "",
    status?.text ?? status?.fill ?? "",
  ].filter((note) => note !== "" && note !== name);
  return (
    <button
      type="button"
      className="plain"
      aria-current={overlays.selected === node.id ? "true" : undefined}
      onClick={() => onSelect(node.id)}
    >
      <span>{name}</span>
      <span className="muted">{visibleText(notes.join(" · "))}</span>
    </button>
  );
}

/** By rows from the top, as flows are read. */
function readingOrder(one: FlowNode, other: FlowNode): number {
  const [a, b] = [one.position ?? origin, other.position ?? origin];
  return Math.round(a.y / 60) - Math.round(b.y / 60) || a.x - b.x;
}

const origin = { x: 0, y: 0 };
