import { timestampDate } from "@bufbuild/protobuf/wkt";
import { createJsonEncoder } from "@flowgate/gateway";
import { nameOfCase } from "../events.ts";
import { type Event, EventSchema, LogLevel } from "../../../gen/flowgate/v1/events_pb.ts";
import { DeploymentOutcome } from "../../../gen/flowgate/v1/flows_pb.ts";
import { type Condition, ConditionKind, HealthState, RuntimeStateReason } from "../../../gen/flowgate/v1/health_pb.ts";
import { ProposalState } from "../../../gen/flowgate/v1/proposals_pb.ts";
import { RuntimeState } from "../../../gen/flowgate/v1/settings_pb.ts";

/** The body of requests: the event, or a text in the form that chats accept. */
export type WebhookFormat = "event" | "slack";

type NamedNode = Pick<Event, "nodeId" | "nodeName" | "nodeType" | "flowLabel" | "flowId">;

const encode = createJsonEncoder(EventSchema);

export function formatBody(event: Event, format: WebhookFormat): string {
  if (format === "slack") {
    return JSON.stringify({ text: shorten(escapeText(describe(event))) });
  }
  // As Standard Webhooks recommend. The JSON of the event is the same as in GET /events.
  const timestamp = event.time === undefined ? undefined : timestampDate(event.time).toISOString();
  const type = nameOfCase(event.kind.case);
  const [start] = JSON.stringify({ type, timestamp }).split(/\}$/);
  return `${start},"data":${Buffer.from(encode(event)).toString()}}`;
}

function describe(event: Event): string {
  const { kind, rev, runtime } = event;
  const where = runtime === "" ? "" : ` on ${runtime}`;
  switch (kind.case) {
    case "deployment": {
      const { outcome, failure, user } = kind.value;
      return join(
        `Deployment ${rev}${user === "" ? "" : ` by ${user}`}: ${nameOf(DeploymentOutcome, outcome)}`,
        failure,
      );
    }
    case "runtimeState": {
      const { state, reason, message } = kind.value;
      const because = reason === RuntimeStateReason.UNSPECIFIED ? "" : ` (${nameOf(RuntimeStateReason, reason)})`;
      return join(`Flow runtime${where}: ${nameOf(RuntimeState, state)}${because}`, message);
    }
    case "health": {
      const { state, conditions } = kind.value;
      return [`Health${where}: ${nameOf(HealthState, state)}`, ...conditions.map(describeCondition)].join("; ");
    }
    case "nodeError":
    case "log":
      return join(`${nameOf(LogLevel, kind.value.level)}${describeNode(event)}${where}`, kind.value.message);
    case "token":
      return `Token ${kind.value.subject} ${kind.value.action}${kind.value.user === "" ? "" : ` by ${kind.value.user}`}`;
    case "users":
      return join(`Users ${kind.value.action}`, kind.value.detail);
    case "proposal": {
      const { id, state, user, proposedBy, message, reason } = kind.value;
      const isNew = state === ProposalState.OPEN;
      const what = isNew ? `proposed by ${proposedBy}` : `by ${proposedBy} ${nameOf(ProposalState, state)} by ${user}`;
      return join(`Proposal ${id} ${what}`, isNew ? message : reason);
    }
    case "module":
      return join(
        `Module ${kind.value.name} ${kind.value.version}: ${kind.value.action} ${kind.value.state}`,
        kind.value.message,
      );
    default:
      return kind.case ?? "";
  }
}

function describeNode({ nodeId, nodeName, nodeType, flowLabel, flowId }: NamedNode): string {
  const node = nodeId === "" ? "" : ` in ${nodeType} "${nodeName || nodeId}"`;
  const tab = flowId === "" ? "" : ` of tab "${flowLabel || flowId}"`;
  return `${node}${tab}`;
}

function describeCondition(condition: Condition): string {
  const { kind, count, message } = condition;
  const times = count === 1 ? "" : ` ${count} times`;
  return join(`${nameOf(ConditionKind, kind)}${times}${describeNode(condition)}`, message);
}

function join(subject: string, detail: string): string {
  return detail === "" ? subject : `${subject}: ${detail}`;
}

function nameOf(values: Readonly<Record<string, number>>, value: number): string {
  const [name = String(value)] = Object.entries(values).find(([, each]) => each === value) ?? [];
  return name.toLowerCase().replaceAll("_", " ");
}

/**
 * https://docs.slack.dev/messaging/formatting-message-text#escaping. Other chats notify everyone of `@channel` or `@all`: with a space
 * of no width after it, `@` is only shown.
 */
function escapeText(text: string): string {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;").replaceAll("@", "@\u200B");
}

/** Chats refuse longer texts: Rocket.Chat more than 5,000 characters. */
const maxTextLength = 3_000;

/** Cuts an escaped text, without a part of an entity or of a surrogate pair at its end. */
function shorten(text: string): string {
  return text.length <= maxTextLength
    ? text
    : `${text.slice(0, maxTextLength - 1).replace(/(?:&[a-z]*|[\uD800-\uDBFF])$/, "")}…`;
}
