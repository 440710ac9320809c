import { type Timestamp, timestampDate } from "@bufbuild/protobuf/wkt";
import {
  DeploymentOutcomeSchema,
  type Event,
  formatDebugValue,
  HealthStateSchema,
  LogLevel,
  LogLevelSchema,
  ProposalState,
  ProposalStateSchema,
  RuntimeStateSchema,
} from "@flowgate/client";
import type { Output, Style } from "../output/output.ts";
import {
  describeCaller,
  describeCondition,
  formatEnum,
  formatTime,
  shortRev,
  styleNodeStatus,
  styleOutcome,
} from "../output/values.ts";
import { printable } from "../printable.ts";

type Styling = Pick<Output, "style">;

/** The text of an event, without its source. Its parts may come from flows and users. */
type Described = {
  /** Its kind or, of a log, its level. */
  readonly label: string;
  readonly style?: Style;
  /** The first line follows the label; the others are indented. */
  readonly text: string;
  /** The lines after the first. */
  readonly note?: string;
};

/**
 * An event for people: its time, kind or level, node and flow, and what it says. A stack and further lines of a text are indented. Empty
 * for events about the stream only.
 */
export function formatEvent(event: Event, output: Styling): string {
  const described = describe(event);
  if (described === undefined) {
    return "";
  }
  const { label, style = [], text, note = "" } = described;
  const [first = "", ...rest] = text.trimEnd().replaceAll("\t", "  ").split(/\r?\n/);
  const message = [printable(first), printable(note)].filter((part) => part !== "").join(" ");
  const parts = [
    formatTimeMs(event.time),
    `${output.style(style, label)}${" ".repeat(Math.max(0, labelWidth - label.length))}`,
    output.style("bold", printable(describeSource(event))),
    message,
  ];
  return [parts.filter((part) => part !== "").join("  "), ...rest.map((line) => `    ${printable(line)}`)].join("\n");
}

const labelWidth = "deployment".length;

/** With milliseconds: `2026-03-01 09:30:00.250`. */
function formatTimeMs(time: Timestamp | undefined): string {
  return time === undefined
    ? ""
    : `${formatTime(time)}.${String(timestampDate(time).getUTCMilliseconds()).padStart(3, "0")}`;
}

/** `greet (function) · Invoices`, after the name of the flow runtime if there are several. */
function describeSource({ runtime, nodeId, nodeType, nodeName, flowId, flowLabel }: Event): string {
  const type = nodeType === "" ? "" : ` (${nodeType})`;
  const node = nodeName === "" ? [nodeType, nodeId].filter((part) => part !== "").join(" ") : `${nodeName}${type}`;
  const place = [node, flowLabel || flowId].filter((part) => part !== "").join(" · ");
  return [runtime === "" ? "" : `[${runtime}]`, place].filter((part) => part !== "").join(" ");
}

function describe({ kind, rev }: Event): Described | undefined {
  switch (kind.case) {
    case "deployment": {
      const { outcome, failure, message } = kind.value;
      const caller = describeCaller(kind.value);
      const by = caller === "" ? "" : ` by ${caller}`;
      const comment = message === "" ? "" : ` ${JSON.stringify(message)}`;
      const reason = failure === "" ? "" : `: ${failure}`;
      return {
        label: "deployment",
        style: styleOutcome(outcome).style,
        text: `revision ${shortRev(rev)}${by}${comment}: ${formatEnum(DeploymentOutcomeSchema, outcome)}${reason}`,
      };
    }
    case "runtimeState": {
      const { state, message } = kind.value;
      const reason = message === "" ? "" : `: ${message}`;
      return { label: "runtime", text: `${formatEnum(RuntimeStateSchema, state)}${reason}` };
    }
    case "health": {
      const { state, conditions } = kind.value;
      return {
        label: "health",
        text: [formatEnum(HealthStateSchema, state), ...conditions.map(describeCondition)].join("\n"),
      };
    }
    case "nodeStatus": {
      const { style, text } = styleNodeStatus(kind.value);
      return { label: "status", style, text: text || "cleared" };
    }
    case "nodeError": {
      const { level, message, stack, line, count, caught, truncated } = kind.value;
      return {
        ...levelOf(level),
        text: stack === "" ? message : `${message}\n${stack.replaceAll(/^\s+/gm, "")}`,
        note: noteOf([line > 0 && `(line ${line})`, caught && "(caught)", truncated && shortened, times(count)]),
      };
    }
    case "debug": {
      const { topic, property, format, truncated } = kind.value;
      const name = property === "" ? "msg" : `msg.${property}`;
      const type = format === "" ? "" : ` (${format})`;
      return {
        label: "debug",
        style: "cyan",
        text: `${topic === "" ? "" : `${topic} `}${name}${type}: ${formatDebugValue(kind.value)}`,
        note: noteOf([truncated && shortened]),
      };
    }
    case "editorMessage": {
      const { topic, data } = kind.value;
      return { label: "editor", text: `${topic}: ${data}` };
    }
    case "log": {
      const { level, message, count } = kind.value;
      return { ...levelOf(level), text: message, note: noteOf([times(count)]) };
    }
    case "module": {
      const { name, version, action, state, message } = kind.value;
      const reason = message === "" ? "" : `: ${message}`;
      return {
        label: "module",
        style: state === "failed" ? "red" : [],
        text: `${action} ${name}${version === "" ? "" : `@${version}`} ${state}${reason}`,
      };
    }
    case "token": {
      const { action, subject, user } = kind.value;
      return { label: "token", text: `${action} ${subject}${user === "" ? "" : ` by ${user}`}` };
    }
    case "users": {
      const { action, detail } = kind.value;
      return {
        label: "users",
        style: action === "rejected" ? "red" : [],
        text: `${action}${detail === "" ? "" : `: ${detail}`}`,
      };
    }
    case "proposal": {
      const { id, state, proposedBy, message, reason } = kind.value;
      const isNew = state === ProposalState.OPEN;
      const what = isNew ? "proposed" : `of ${proposedBy} ${formatEnum(ProposalStateSchema, state)}`;
      const comment = isNew ? message : reason;
      return {
        label: "proposal",
        style: state === ProposalState.APPROVED ? "green" : state === ProposalState.REJECTED ? "red" : [],
        text: `${id} ${what} by ${describeCaller(kind.value)}${comment === "" ? "" : ` ${JSON.stringify(comment)}`}`,
      };
    }
    case "dropped": {
      const { count, kinds, reason } = kind.value;
      const by = Object.entries(kinds).map(([name, each]) => `${each} ${name}`);
      const number = count === 0 ? "some events are" : `${count} ${count === 1 ? "event is" : "events are"}`;
      return {
        label: "dropped",
        style: "yellow",
        text: `${number} missing here${by.length === 0 ? "" : ` (${by.join(", ")})`}: ${dropReasons.get(reason) ?? reason}`,
      };
    }
    default:
      return undefined;
  }
}

const dropReasons: ReadonlyMap<string, string> = new Map([
  ["slow_reader", "they were not read fast enough"],
  ["flood", "there were too many"],
  ["expired", "they are not known any more"],
  ["replica_unreachable", "a replica could not be reached"],
  ["not_recorded", "they could not be recorded"],
  ["not_encoded", "they could not be encoded"],
]);

const shortened = "(shortened)";

const levelStyles: Readonly<Record<number, Style>> = {
  [LogLevel.FATAL]: ["bold", "red"],
  [LogLevel.ERROR]: "red",
  [LogLevel.WARN]: "yellow",
  [LogLevel.INFO]: "green",
};

function levelOf(level: LogLevel): Pick<Described, "label" | "style"> {
  return { label: formatEnum(LogLevelSchema, level), style: levelStyles[level] ?? [] };
}

function times(count: number): string {
  return count > 1 ? `×${count}` : "";
}

function noteOf(parts: readonly (string | false)[]): string {
  return parts.filter((part) => part !== false && part !== "").join(" ");
}
