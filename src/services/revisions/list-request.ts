import { type Timestamp, timestampMs } from "@bufbuild/protobuf/wkt";
import { DeploymentOutcome, DeploymentType } from "../../../gen/flowgate/v1/flows_pb.ts";
import type { ListRevisionsRequest } from "../../../gen/flowgate/v1/revisions_pb.ts";
import { outcomes } from "../../deployments/revision-message.ts";
import { FlowgateError } from "../../errors.ts";
import { parseDeploymentType } from "../../flows/deployment-type.ts";
import { outcomeStates, type RevisionFilter, type RevisionOutcome } from "../../store/store.ts";

const defaultPageSize = 50;
const maxPageSize = 1_000;

/** The limit and cursor of a page. Larger pages are reduced to the maximum (AIP-158). */
export function parsePage({ pageSize, pageToken }: Pick<ListRevisionsRequest, "pageSize" | "pageToken">): {
  readonly limit: number;
  readonly before: number | undefined;
} {
  if (pageSize < 0) {
    throw new FlowgateError("invalid_argument", "page_size: must not be negative");
  }
  return {
    limit: Math.min(pageSize === 0 ? defaultPageSize : pageSize, maxPageSize),
    before: pageToken === "" ? undefined : parsePageToken(pageToken),
  };
}

export function formatPageToken(cursor: number): string {
  return Buffer.from(String(cursor)).toString("base64url");
}

function parsePageToken(token: string): number {
  const text = Buffer.from(token, "base64url").toString();
  if (!/^[1-9]\d{0,14}$/.test(text)) {
    throw new FlowgateError("invalid_argument", "page_token: must be the next_page_token of a previous response");
  }
  return Number(text);
}

export function parseFilter(request: ListRevisionsRequest): RevisionFilter {
  return {
    by: request.user === "" ? undefined : request.user,
    deploymentType:
      request.deploymentType === DeploymentType.UNSPECIFIED ? undefined : parseDeploymentType(request.deploymentType),
    outcome: parseOutcome(request.outcome),
    pinned: request.pinned,
    fromMs: toMs("start_time", request.startTime),
    untilMs: toMs("end_time", request.endTime),
  };
}

function parseOutcome(value: DeploymentOutcome): RevisionOutcome["state"] | undefined {
  if (value === DeploymentOutcome.UNSPECIFIED) {
    return undefined;
  }
  const state = outcomeStates.find((each) => outcomes[each] === value);
  if (state === undefined) {
    throw new FlowgateError("invalid_argument", `outcome: revisions have one of ${outcomeStates.join(", ")}`);
  }
  return state;
}

/** Rounds up to milliseconds, so that a revision's own time in nanoseconds is neither before nor after itself. */
function toMs(name: string, time: Timestamp | undefined): number | undefined {
  if (time === undefined) {
    return undefined;
  }
  const ms = Math.ceil(timestampMs(time));
  if (!Number.isSafeInteger(ms)) {
    throw new FlowgateError("invalid_argument", `${name}: is out of range`);
  }
  return ms;
}
