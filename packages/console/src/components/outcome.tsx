import { type ReactNode, useReducer, useState } from "react";
import { type ConcurrentChange, DeploymentOutcome, NodeChange, type SetFlowsResponse } from "@flowgate/client";
import { Link } from "wouter";
import { useEvents } from "../api/live.tsx";
import { texts as diffTexts } from "../texts/flows-diff.ts";
import { texts } from "../texts/plan.ts";
import {
  addEvent,
  type DeployedRevision,
  type Deployments,
  type FailingNode,
  noDeployments,
} from "./deployment-events.ts";
import { describeOutcome } from "./describe.ts";
import { nodePath } from "./node-path.ts";
import { RevisionLink } from "./revision.tsx";
import { Sign } from "./sign.tsx";
import { type Column, Table } from "./table.tsx";
import { visibleText } from "./visible-text.ts";
import "./plan.css";

export function useDeployments(): Deployments {
  const [deployments, add] = useReducer(addEvent, noDeployments);
  useEvents(["deployment", "nodeError"], add);
  return deployments;
}

const sentences: Readonly<Record<number, string>> = {
  [DeploymentOutcome.RUNNING]: "Its flows are running",
  [DeploymentOutcome.DEGRADED]: "Its flows run, but nodes have errors",
  [DeploymentOutcome.FAILED]: "Its flows do not run",
  [DeploymentOutcome.UNDONE]: "Its flows did not run, and were undone",
  [DeploymentOutcome.REPLACED]: "A newer deployment has replaced it",
  [DeploymentOutcome.STOPPED]: "The flows are stopped",
};

export function OutcomeSentence({ outcome }: { readonly outcome: DeploymentOutcome }): ReactNode {
  const [, tone] = describeOutcome(outcome);
  return <Sign tone={tone}>{sentences[outcome] ?? "It is not known yet whether its flows run"}</Sign>;
}

export function Outcome({
  response,
  deployments,
}: {
  readonly response: Pick<
    SetFlowsResponse,
    "rev" | "outcome" | "outcomeMessage" | "missingTypes" | "undoneRev" | "mergedRev" | "mergedChanges"
  >;
  readonly deployments: Deployments;
}): ReactNode {
  const { rev, undoneRev, mergedRev, mergedChanges, missingTypes } = response;
  const { outcome, reason } = useLatest(response, deployments);
  const deployedRev = undoneRev || rev;
  const failing = deployments.failing.filter((node) => node.rev === deployedRev);
  return (
    <div className="outcome stack">
      <output className="outcome-title">
        <span>
          Deployed revision <RevisionLink rev={deployedRev} />
          {mergedRev === "" ? null : (
            <>
              , {"merged with"} <RevisionLink rev={mergedRev} />
            </>
          )}
          .
        </span>{" "}
        <OutcomeSentence outcome={outcome} />
      </output>
      {reason === "" ? null : (
        <p>
          {"Reason"}: {visibleText(reason)}
        </p>
      )}
      {missingTypes.length === 0 ? null : (
        <p>
          {texts.missingTypes} <code>{visibleText(missingTypes.join(", "))}</code>
        </p>
      )}
      {undoneRev === "" ? null : (
        <p>
          The previous flows were deployed again, as revision <RevisionLink rev={rev} />.
        </p>
      )}
      <FailingNodes nodes={failing} />
      {mergedChanges.length === 0 ? null : (
        <details>
          <summary>{texts.merged}</summary>
          <ConcurrentChanges changes={mergedChanges} />
        </details>
      )}
    </div>
  );
}

/** The response is later than the events before it, unless it did not wait for the outcome; the events after it are later. */
function useLatest(
  {
    rev,
    outcome,
    outcomeMessage,
    undoneRev,
  }: Pick<SetFlowsResponse, "rev" | "outcome" | "outcomeMessage" | "undoneRev">,
  { revisions }: Deployments,
): { readonly outcome: DeploymentOutcome; readonly reason: string } {
  const [later, setLater] = useState<DeployedRevision>();
  useEvents(["deployment"], ({ rev: of, kind: { value } }) => {
    if (of === rev && undoneRev === "") {
      setLater({ rev, parent: value.parent, outcome: value.outcome, failure: value.failure });
    }
  });
  const isPending = outcome === DeploymentOutcome.PENDING || outcome === DeploymentOutcome.UNSPECIFIED;
  const event = later ?? (isPending ? revisions.find((each) => each.rev === rev) : undefined);
  return event === undefined ? { outcome, reason: outcomeMessage } : { outcome: event.outcome, reason: event.failure };
}

function FailingNodes({ nodes }: { readonly nodes: readonly FailingNode[] }): ReactNode {
  return nodes.length === 0 ? null : (
    <section aria-label={texts.failingNodes}>
      <h3>{texts.failingNodes}</h3>
      <ul className="failing-nodes">
        {nodes.map(({ id, type, name, flow, message, count }) => (
          <li key={id}>
            <Link href={nodePath({ flowId: flow, nodeId: id, subflowPath: [] })}>
              {visibleText(name || `${type} ${id}`)}
            </Link>{" "}
            <span className="muted">
              {visibleText(type)}, {texts.errorsOf(count)}
            </span>
            <div>{visibleText(message)}</div>
          </li>
        ))}
      </ul>
    </section>
  );
}

const changeWords: Readonly<Record<number, string>> = {
  [NodeChange.ADDED]: diffTexts.changes.added,
  [NodeChange.REMOVED]: diffTexts.changes.removed,
  [NodeChange.CHANGED]: diffTexts.changes.changed,
};

const changeColumns: readonly Column<ConcurrentChange>[] = [
  {
    title: "Node",
    cell: ({ nodeId, type, name }) => (
      <>
        {visibleText(type)} {name === "" ? null : <bdi>{visibleText(name)} </bdi>}
        <code>{visibleText(nodeId)}</code>
      </>
    ),
  },
  { title: "By you", cell: ({ yours }) => changeWords[yours] ?? texts.unchanged },
  { title: "By others", cell: ({ theirs }) => changeWords[theirs] ?? texts.unchanged },
  {
    title: "Conflict",
    cell: ({ conflict }) => (conflict === "" ? null : <span className="conflict">{visibleText(conflict)}</span>),
  },
];

export function ConcurrentChanges({
  changes,
  more = 0,
}: {
  readonly changes: readonly ConcurrentChange[];
  readonly more?: number;
}): ReactNode {
  return (
    <>
      <Table label={texts.merged} columns={changeColumns} rows={changes} keyOf={({ nodeId }) => nodeId} empty={null} />
      {more === 0 ? null : <p className="muted">{texts.noLongerListed(more)}</p>}
    </>
  );
}
