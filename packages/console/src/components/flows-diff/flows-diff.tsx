import { type ReactNode, useEffect, useId, useMemo, useRef, useState } from "react";
import {
  type ContainerDiff,
  ContainerKind,
  type CredentialNames,
  type FlowsDiff,
  type Node,
  NodeAspect,
  NodeChange,
  type NodeDiff,
} from "@flowgate/client";
import { texts } from "../../texts/flows-diff.ts";
import { visibleText } from "../visible-text.ts";
import { countChanges, takeNodes } from "./counts.ts";
import { viewProperties } from "./properties.ts";
import { type NameOf, PropertyChangeView } from "./property-change.tsx";
import "./flows-diff.css";

/** More nodes make a page slow, and are not read at once. */
const maxNodes = 200;

export function DiffFlows({ diff, nodes }: { readonly diff: FlowsDiff; readonly nodes?: readonly Node[] }): ReactNode {
  const [isWhole, setWhole] = useState(false);
  const { root, jump } = useJumps();
  const nameOf = useNames(diff, nodes);
  const { added, removed, changed, moved } = useMemo(() => countChanges(diff), [diff]);
  const rest = isWhole ? 0 : Math.max(0, added + removed + changed - maxNodes);
  const containers = useMemo(() => (rest === 0 ? diff.containers : takeNodes(diff, maxNodes)), [diff, rest]);
  if (diff.containers.length === 0) {
    return <p className="muted">Nothing changes.</p>;
  }
  return (
    <div ref={root} className="flows-diff">
      <div className="flows-diff-bar">
        <span>{texts.summary(added, removed, changed, moved)}</span>
        <div className="actions">
          <button type="button" title={texts.keys} onClick={() => jump(-1)}>
            Previous change
          </button>
          <button type="button" title={texts.keys} onClick={() => jump(1)}>
            Next change
          </button>
        </div>
      </div>
      {containers.map((container) => (
        <Container key={`${container.kind} ${container.id}`} container={container} nameOf={nameOf} />
      ))}
      {rest === 0 ? null : (
        <button type="button" onClick={() => setWhole(true)}>
          {texts.showAll(rest)}
        </button>
      )}
    </div>
  );
}

function useJumps() {
  const root = useRef<HTMLDivElement>(null);
  const current = useRef<Element>(undefined);
  const jump = (step: 1 | -1): void => {
    const changes = [...(root.current?.querySelectorAll<HTMLElement>(".node-change") ?? [])];
    const index = changes.findIndex((change) => change === current.current);
    const next = changes[index === -1 ? (step === 1 ? 0 : changes.length - 1) : index + step];
    current.current = next ?? current.current;
    next?.focus();
  };
  useEffect(() => {
    const element = root.current;
    const follow = ({ target }: FocusEvent): void => {
      current.current = (target as Element).closest(".node-change") ?? current.current;
    };
    const onKey = (event: KeyboardEvent): void => {
      const step = event.key === "n" ? 1 : event.key === "p" ? -1 : undefined;
      if (step !== undefined && !event.ctrlKey && !event.metaKey && !event.altKey) {
        event.preventDefault();
        jump(step);
      }
    };
    element?.addEventListener("focusin", follow);
    element?.addEventListener("keydown", onKey);
    return () => {
      element?.removeEventListener("focusin", follow);
      element?.removeEventListener("keydown", onKey);
    };
  });
  return { root, jump };
}

function useNames({ containers }: FlowsDiff, nodes: readonly Node[] = []): NameOf {
  const names = useMemo(
    () =>
      new Map([
        ...nodes.map(({ id, type, label, properties }): [string, string] => [
          id,
          formatNode(type, label ?? textOf(properties?.["name"])),
        ]),
        ...containers.flatMap((container) =>
          container.nodes.map(({ id, type, name }): [string, string] => [id, formatNode(type, name)]),
        ),
      ]),
    [containers, nodes],
  );
  return (id) => visibleText(names.has(id) ? `${names.get(id)} (${id})` : id);
}

function formatNode(type: string, name: string | undefined): string {
  return name === undefined || name === "" ? type : `${type} “${name}”`;
}

function textOf(value: unknown): string | undefined {
  return typeof value === "string" ? value : undefined;
}

const kinds: Readonly<Record<ContainerKind, string>> = {
  [ContainerKind.TAB]: texts.containers.tab,
  [ContainerKind.SUBFLOW]: texts.containers.subflow,
  [ContainerKind.GLOBAL]: texts.containers.global,
  [ContainerKind.UNSPECIFIED]: "",
};

function Container({
  container: { kind, id, name, nodes },
  nameOf,
}: {
  readonly container: ContainerDiff;
  readonly nameOf: NameOf;
}): ReactNode {
  const heading = useId();
  return (
    <section className="container-diff" aria-labelledby={heading}>
      <h3 id={heading}>
        {kinds[kind]} {kind === ContainerKind.GLOBAL ? null : <bdi>{visibleText(name ?? id)}</bdi>}
      </h3>
      {nodes.map((node) => (
        <NodeChangeView key={node.id} node={node} nameOf={nameOf} />
      ))}
    </section>
  );
}

type Change = { readonly word: keyof typeof texts.changes; readonly symbol: string };

const changed: Change = { word: "changed", symbol: "~" };

const changes: Readonly<Record<number, Change>> = {
  [NodeChange.ADDED]: { word: "added", symbol: "+" },
  [NodeChange.REMOVED]: { word: "removed", symbol: "−" },
};

const aspects: Readonly<Record<NodeAspect, string>> = {
  [NodeAspect.POSITION]: "moved",
  [NodeAspect.ORDER]: "reordered",
  [NodeAspect.CONTAINER]: "other tab or subflow",
  [NodeAspect.GROUP]: "group",
  [NodeAspect.WIRES]: "rewired",
  [NodeAspect.PROPERTIES]: "properties",
  [NodeAspect.CREDENTIALS]: "credentials",
  [NodeAspect.UNSPECIFIED]: "",
};

function NodeChangeView({ node, nameOf }: { readonly node: NodeDiff; readonly nameOf: NameOf }): ReactNode {
  const heading = useId();
  const { word, symbol } = changes[node.change] ?? changed;
  const views = useMemo(() => viewProperties(node), [node]);
  const list = (shown: typeof views): ReactNode =>
    shown.map((view) => (
      <PropertyChangeView key={`${view.path} ${"output" in view ? view.output : ""}`} view={view} nameOf={nameOf} />
    ));
  // Of a node that comes or goes, the code is what matters.
  const code = views.filter(({ kind }) => kind === "code");
  const others = views.filter(({ kind }) => kind !== "code");
  return (
    <article className="node-change" data-change={word} tabIndex={-1} aria-labelledby={heading}>
      <h4 id={heading}>
        <span className="change-symbol" aria-hidden="true">
          {symbol}
        </span>
        <span className="visually-hidden">{texts.changes[word]}: </span>
        <span className="node-type">{visibleText(node.type)}</span>{" "}
        {node.name === undefined || node.name === "" ? null : <bdi>{visibleText(node.name)} </bdi>}
        <code>{visibleText(node.id)}</code>
        <span className="node-aspects">{node.aspects.map((aspect) => aspects[aspect]).join(", ")}</span>
      </h4>
      {node.change === NodeChange.CHANGED ? (
        list(views)
      ) : (
        <>
          {list(code)}
          {others.length === 0 ? null : (
            <details>
              <summary>{texts.properties(others.length)}</summary>
              {list(others)}
            </details>
          )}
        </>
      )}
      {node.credentials === undefined ? null : <Credentials names={node.credentials} />}
    </article>
  );
}

function Credentials({ names: { added, removed, changed } }: { readonly names: CredentialNames }): ReactNode {
  const list = [
    ...added.map((name) => [name, "set"]),
    ...removed.map((name) => [name, "removed"]),
    ...changed.map((name) => [name, "changed"]),
  ];
  return list.length === 0 ? null : (
    <div className="property-change">
      <code className="property-path">credentials</code>
      <ul className="references">
        {list.map(([name = "", change]) => (
          <li key={name}>
            {visibleText(name)}: {change}
          </li>
        ))}
      </ul>
    </div>
  );
}
