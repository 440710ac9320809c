import "./flows.css";
import { type ReactNode, useCallback, useDeferredValue, useMemo, useState } from "react";
import { useMutation, useQuery } from "@connectrpc/connect-query";
import { FlowsService, type Node, nodeToJson, RevisionsService, RuntimeService } from "@flowgate/client";
import { Link, useLocation, useSearch } from "wouter";
import { readPathBelow } from "../../api/paths.ts";
import { useRefresh } from "../../api/refresh.ts";
import { ConfirmButton } from "../../components/dialog.tsx";
import { parseTabPath, tabPath } from "../../components/node-path.ts";
import { Page, Result } from "../../components/page.tsx";
import { Sign } from "../../components/sign.tsx";
import { visibleText } from "../../components/visible-text.ts";
import { type FlowContainer, type FlowNodes, parseFlowNodes } from "../../flow-view/flow-nodes.ts";
import { FlowView } from "../../flow-view/flow-view.tsx";
import type { Overlays } from "../../flow-view/overlays.ts";
import { useRuntime } from "../../components/runtime.ts";
import { useSession } from "../../session.tsx";
import { texts } from "../../texts/flows.ts";
import { NodePanel } from "./node-panel.tsx";
import { type NodeStates, useNodeStates } from "./node-states.ts";
import { type Found, NodeSearch } from "./search.ts";

export function FlowsPage(): ReactNode {
  const flows = useQuery(FlowsService.method.getFlows, {});
  return (
    <Page title="Flows">
      <Result of={flows}>{(data) => <Flows flows={data} />}</Result>
    </Page>
  );
}

type ActiveFlows = { readonly flows: readonly Node[]; readonly rev: string };

/** Parsed once for each answer of the service: the page is shown anew for each tab. */
const parsed = new WeakMap<ActiveFlows, FlowNodes>();

function nodesOf(flows: ActiveFlows): FlowNodes {
  const known = parsed.get(flows);
  if (known !== undefined) {
    return known;
  }
  const nodes = parseFlowNodes(flows.flows.map(nodeToJson));
  parsed.set(flows, nodes);
  return nodes;
}

function Flows({ flows }: { readonly flows: ActiveFlows }): ReactNode {
  const nodes = nodesOf(flows);
  // For a new path or a new search.
  useLocation();
  useSearch();
  const path = parseTabPath(readPathBelow("/flows"));
  const { can } = useSession();
  const selected = new URLSearchParams(location.search).get("node") ?? undefined;
  const first = nodes.containers[0];
  const container = path === "" ? (containerOf(nodes, selected) ?? first) : nodes.container(path ?? "");
  const states = useNodeStates(container?.kind === "tab" ? container.id : undefined, useRuntime(can("runtime.read")));
  const [query, setQuery] = useState("");
  const found = useFound(nodes, query);
  if (first === undefined) {
    return <p className="muted">There are no flows yet.</p>;
  }
  return (
    <>
      <Containers nodes={nodes} current={container?.id} errors={states.tabErrors} />
      <Search nodes={nodes} query={query} found={found} onQuery={setQuery} />
      {container === undefined ? (
        <p>There is no such tab or subflow in the active flows.</p>
      ) : (
        <Container
          nodes={nodes}
          rev={flows.rev}
          container={container}
          states={states}
          selected={selected}
          found={found}
        />
      )}
    </>
  );
}

function Container({
  nodes,
  rev,
  container,
  states,
  selected,
  found,
}: {
  readonly nodes: FlowNodes;
  readonly rev: string;
  readonly container: FlowContainer;
  readonly states: NodeStates;
  readonly selected: string | undefined;
  readonly found: readonly Found[];
}): ReactNode {
  const [, navigate] = useLocation();
  const select = useCallback(
    (id: string | undefined) => navigate(linkTo(container.id, id), { replace: true }),
    [navigate, container.id],
  );
  const highlighted = useMemo(() => new Set(found.map(({ node }) => node.id)), [found]);
  const overlays = useMemo(
    (): Overlays => ({
      statuses: states.statuses,
      errors: states.errors,
      messages: states.messages,
      highlighted,
      selected,
    }),
    [states, highlighted, selected],
  );
  return (
    <>
      <div className="page-heading">
        <h2>
          {visibleText(container.name)} {container.isDisabled ? <Sign tone="neutral">{texts.disabled}</Sign> : null}
        </h2>
        <TabSwitch container={container} rev={rev} />
      </div>
      {container.kind === "tab" && container.isMissing ? (
        <p className="muted">No tab has this id, as in an exported selection of nodes. The nodes run nevertheless.</p>
      ) : null}
      <div className="flows-main" data-selected={selected !== undefined}>
        <FlowView nodes={nodes} container={container.id} overlays={overlays} onSelect={select} />
        {selected === undefined ? null : (
          <NodePanel
            key={selected}
            nodes={nodes}
            id={selected}
            state={states.states.get(selected)}
            status={states.statuses.get(selected)}
            errors={states.errors.get(selected) ?? 0}
            lastError={states.lastErrors.get(selected)}
            onClose={() => select(undefined)}
          />
        )}
      </div>
    </>
  );
}

/** Enables or disables a tab. Fails if another revision than the one that is shown has become active. */
function TabSwitch({ container, rev }: { readonly container: FlowContainer; readonly rev: string }): ReactNode {
  const { can } = useSession();
  const enable = useMutation(FlowsService.method.enableFlow);
  const disable = useMutation(FlowsService.method.disableFlow);
  const refresh = useRefresh(
    FlowsService.method.getFlows,
    RevisionsService.method.listRevisions,
    RuntimeService.method.listNodeStatuses,
  );
  if (container.kind !== "tab" || !can("flows.write")) {
    return null;
  }
  const { id, isDisabled } = container;
  const name = visibleText(container.name);
  return (
    <ConfirmButton
      label={isDisabled ? texts.enable : texts.disable}
      title={isDisabled ? texts.enableTitle(name) : texts.disableTitle(name)}
      description={
        isDisabled
          ? "This deploys a new revision. The nodes of the tab are started; other tabs keep running."
          : "This deploys a new revision. The nodes of the tab are stopped, and their state in memory is lost."
      }
      confirm={isDisabled ? texts.enable : texts.disable}
      onConfirm={async () => {
        await (isDisabled ? enable : disable).mutateAsync({ id, rev });
        await refresh();
      }}
    />
  );
}

function Containers({
  nodes,
  current,
  errors,
}: {
  readonly nodes: FlowNodes;
  readonly current: string | undefined;
  readonly errors: ReadonlyMap<string, number>;
}): ReactNode {
  return (
    <nav aria-label="Tabs and subflows" className="flows-tabs">
      <ul>
        {nodes.containers.map(({ id, name, kind, isDisabled }) => {
          const count = errors.get(id) ?? 0;
          return (
            <li key={id} ref={id === current ? scrollListTo : undefined}>
              <Link href={linkTo(id)} aria-current={id === current ? "page" : undefined}>
                <span>{visibleText(name)}</span>
                {kind === "subflow" ? <span className="muted"> subflow</span> : null}
                {isDisabled ? <span className="muted"> {texts.disabled}</span> : null}
                {count > 0 ? <Sign tone="bad">{texts.errors(count)}</Sign> : null}
              </Link>
            </li>
          );
        })}
      </ul>
    </nav>
  );
}

/** Makes an entry visible without scrolling the page. */
function scrollListTo(entry: HTMLElement | null): void {
  if (entry?.parentElement) {
    entry.parentElement.scrollTop = entry.offsetTop - entry.parentElement.offsetTop;
  }
}

/** The maximum number of search results shown. */
const maxFound = 50;

function Search({
  nodes,
  query,
  found,
  onQuery,
}: {
  readonly nodes: FlowNodes;
  readonly query: string;
  readonly found: readonly Found[];
  readonly onQuery: (query: string) => void;
}): ReactNode {
  return (
    <search className="flows-search">
      <label>
        Search all nodes
        <input
          type="search"
          autoComplete="off"
          spellCheck={false}
          placeholder="Names, types, ids, properties and code"
          value={query}
          onChange={(event) => onQuery(event.target.value)}
        />
      </label>
      {query.trim() === "" ? null : (
        <>
          <output className="muted">{found.length === 0 ? "No node contains this." : texts.found(found.length)}</output>
          <ul>
            {found.slice(0, maxFound).map(({ node, name }) => (
              <li key={node.id}>
                <Link href={linkTo(node.container ?? (isContainer(node.type) ? node.id : ""), node.id)}>
                  {visibleText(name)}
                </Link>{" "}
                <span className="muted">
                  {[node.type, nodes.container(node.container ?? "")?.name ?? "Configuration nodes"]
                    .map(visibleText)
                    .join(" · ")}
                </span>
              </li>
            ))}
          </ul>
          {found.length > maxFound ? <p className="muted">{texts.moreFound(found.length - maxFound)}</p> : null}
        </>
      )}
    </search>
  );
}

function useFound(nodes: FlowNodes, query: string): readonly Found[] {
  const search = useMemo(() => new NodeSearch(nodes), [nodes]);
  const deferred = useDeferredValue(query);
  return useMemo(() => search.find(deferred), [search, deferred]);
}

function linkTo(container: string, node?: string): string {
  const path = tabPath(container);
  return node === undefined ? path : `${path}?node=${encodeURIComponent(node)}`;
}

function containerOf(nodes: FlowNodes, id: string | undefined): FlowContainer | undefined {
  const node = id === undefined ? undefined : nodes.get(id);
  return node?.container === undefined ? undefined : nodes.container(node.container);
}

function isContainer(type: string): boolean {
  return type === "tab" || type === "subflow";
}
