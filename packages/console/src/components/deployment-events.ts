import {
  type DeploymentEvent,
  type DeploymentOutcome,
  type Event,
  LogLevel,
  type NodeErrorEvent,
} from "@flowgate/client";

export type FailingNode = {
  readonly rev: string;
  readonly id: string;
  readonly type: string;
  readonly name: string;
  readonly flow: string;
  readonly message: string;
  readonly count: number;
};

export type DeployedRevision = {
  readonly rev: string;
  readonly parent: string;
  readonly outcome: DeploymentOutcome;
  readonly failure: string;
};

export type Deployments = { readonly revisions: readonly DeployedRevision[]; readonly failing: readonly FailingNode[] };

export const noDeployments: Deployments = { revisions: [], failing: [] };

const maxRevisions = 20;
const maxFailing = 100;

/** Warnings of nodes, and other kinds of events, are ignored. */
export function addEvent(deployments: Deployments, { kind, ...event }: Event): Deployments {
  if (kind.case === "deployment") {
    return { ...deployments, revisions: addRevision(deployments.revisions, event, kind.value) };
  }
  return kind.case === "nodeError" && kind.value.level <= LogLevel.ERROR
    ? { ...deployments, failing: addError(deployments.failing, event, kind.value) }
    : deployments;
}

type About = Pick<Event, "rev" | "nodeId" | "nodeType" | "nodeName" | "flowId">;

function addRevision(
  revisions: readonly DeployedRevision[],
  { rev }: About,
  { parent, outcome, failure }: DeploymentEvent,
): readonly DeployedRevision[] {
  const revision = { rev, parent, outcome, failure };
  return revisions.some((each) => each.rev === rev)
    ? revisions.map((each) => (each.rev === rev ? revision : each))
    : [...revisions, revision].slice(-maxRevisions);
}

function addError(
  failing: readonly FailingNode[],
  { rev, nodeId: id, nodeType: type, nodeName: name, flowId: flow }: About,
  { message, count }: NodeErrorEvent,
): readonly FailingNode[] {
  const before = failing.find((each) => each.rev === rev && each.id === id);
  const node = { rev, id, type, name, flow, message, count: (before?.count ?? 0) + Math.max(count, 1) };
  return [...failing.filter((each) => each !== before), node].slice(-maxFailing);
}
