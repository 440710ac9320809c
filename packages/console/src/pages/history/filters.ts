import type { MessageShape } from "@bufbuild/protobuf";
import { type Timestamp, timestampFromDate } from "@bufbuild/protobuf/wkt";
import { DeploymentOutcome, DeploymentType, type RevisionsService } from "@flowgate/client";

export const filterNames = ["user", "type", "outcome", "pinned", "since", "until"] as const;

export type RevisionFilters = Readonly<Record<(typeof filterNames)[number], string>>;

/** The values of the filters in the address of the page. */
export const typeNames: ReadonlyMap<string, DeploymentType> = new Map([
  ["full", DeploymentType.FULL],
  ["nodes", DeploymentType.NODES],
  ["flows", DeploymentType.FLOWS],
]);

export const outcomeNames: ReadonlyMap<string, DeploymentOutcome> = new Map([
  ["running", DeploymentOutcome.RUNNING],
  ["degraded", DeploymentOutcome.DEGRADED],
  ["failed", DeploymentOutcome.FAILED],
  ["undone", DeploymentOutcome.UNDONE],
  ["pending", DeploymentOutcome.PENDING],
  ["replaced", DeploymentOutcome.REPLACED],
  ["stopped", DeploymentOutcome.STOPPED],
]);

type Request = Pick<MessageShape<Method["input"]>, "user" | "deploymentType" | "outcome"> &
  Partial<Pick<MessageShape<Method["input"]>, "pinned" | "startTime" | "endTime">>;

type Method = typeof RevisionsService.method.listRevisions;

/** The request for the revisions that pass the filters. What an address has that is no value of a filter is left out. */
export function requestOf({ user, type, outcome, pinned, since, until }: RevisionFilters): Request {
  const [startTime, endTime] = [timestampOf(since), timestampOf(until)];
  return {
    user,
    deploymentType: typeNames.get(type) ?? DeploymentType.UNSPECIFIED,
    outcome: outcomeNames.get(outcome) ?? DeploymentOutcome.UNSPECIFIED,
    ...((pinned === "yes" || pinned === "no") && { pinned: pinned === "yes" }),
    ...(startTime && { startTime }),
    ...(endTime && { endTime }),
  };
}

function timestampOf(value: string): Timestamp | undefined {
  const date = new Date(value);
  return Number.isNaN(date.getTime()) ? undefined : timestampFromDate(date);
}
