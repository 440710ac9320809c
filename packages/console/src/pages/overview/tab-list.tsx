import type { ReactNode } from "react";
import { Link } from "wouter";
import type { FlowState, NodeState } from "@flowgate/client";
import { formatCount } from "../../components/format.ts";
import { nodePath, tabPath } from "../../components/node-path.ts";
import { type Column, Table } from "../../components/table.tsx";
import { Time } from "../../components/time.tsx";
import { visibleText } from "../../components/visible-text.ts";
import { texts as all } from "../../texts/overview.ts";

/** The maximum number of nodes named in the row of a tab. */
const maxNamed = 5;

/** The tabs with active nodes: failing ones first, by their last error. */
export function TabList({
  flows,
  nodes,
  isUp,
}: {
  /** In the order of the list; undefined: they are not known yet. */
  readonly flows: readonly FlowState[] | undefined;
  readonly nodes: readonly NodeState[];
  readonly isUp: boolean;
}): ReactNode {
  return (
    <section className="card" aria-labelledby="overview-tabs">
      <h2 id="overview-tabs">Tabs</h2>
      {isUp && flows === undefined ? null : (
        <Table
          label="Tabs with their errors"
          rows={flows ?? []}
          keyOf={({ flowId }) => flowId}
          empty={
            isUp
              ? "No node has a state yet: none has received a message, set a status or logged an error."
              : "There are no nodes, since the flows do not run on the replica that responds."
          }
          columns={columns(Map.groupBy(nodes, ({ flowId }) => flowId))}
        />
      )}
      {(flows?.length ?? 0) > 0 ? (
        <p className="muted">Since the nodes were started. Failing: an error within the last 10 minutes.</p>
      ) : null}
    </section>
  );
}

/** `failing` are the nodes with errors, by the id of their tab. */
const columns = (failing: ReadonlyMap<string, readonly NodeState[]>): readonly Column<FlowState>[] => [
  { title: "Tab", cell: (flow) => <TabLink flow={flow} /> },
  { title: "Errors", cell: ({ errors }) => <Count value={errors} tone="bad" /> },
  { title: "Warnings", cell: ({ warnings }) => <Count value={warnings} tone="warn" /> },
  { title: "Messages", cell: ({ messages }) => formatCount(messages) },
  {
    title: "Failing nodes",
    cell: ({ flowId }) => {
      const nodes = failing.get(flowId);
      return nodes === undefined ? null : <FailingNodes nodes={nodes} />;
    },
  },
  {
    title: "Last error",
    cell: ({ lastError, lastErrorTime }) =>
      lastError === undefined ? null : (
        <>
          <span className="overview-error">{visibleText(lastError.message)}</span>{" "}
          <span className="muted">
            <Time at={lastErrorTime} />
          </span>
        </>
      ),
  },
];

function TabLink({ flow: { flowId, flowLabel } }: { readonly flow: FlowState }): ReactNode {
  return <Link href={tabPath(flowId)}>{flowId === "" ? all.tabs.globalNodes : visibleText(flowLabel || flowId)}</Link>;
}

function Count({ value, tone }: { readonly value: number; readonly tone: "bad" | "warn" }): ReactNode {
  return (
    <span className="overview-count" data-tone={value > 0 ? tone : undefined}>
      {formatCount(value)}
    </span>
  );
}

function FailingNodes({ nodes }: { readonly nodes: readonly NodeState[] }): ReactNode {
  return (
    <ul className="plain-list">
      {nodes
        .toSorted((one, other) => other.errors - one.errors)
        .slice(0, maxNamed)
        .map((node) => (
          <li key={[...node.subflowPath, node.nodeId].join("/")}>
            <Link href={nodePath(node)}>
              {visibleText(node.nodeName === "" ? `${node.nodeType} ${node.nodeId}` : node.nodeName)}
            </Link>{" "}
            <span className="muted">×{formatCount(node.errors)}</span>
          </li>
        ))}
      {nodes.length > maxNamed ? <li className="muted">{all.tabs.more(nodes.length - maxNamed)}</li> : null}
    </ul>
  );
}
