import { timestampMs } from "@bufbuild/protobuf/wkt";
import { type Event, formatDebugValue, LogLevel, type ProposalState, ProposalStateSchema } from "@flowgate/client";
import {
  describeCaller,
  describeCondition,
  describeHealth,
  describeOutcome,
  describeState,
  type Tone,
} from "../../components/describe.ts";
import { nodePath } from "../../components/node-path.ts";
import { visibleText } from "../../components/visible-text.ts";
import { texts } from "../../texts/logs.ts";

export type LogLine = {
  readonly key: string;
  readonly atMs: number;
  readonly word: string;
  readonly tone: Tone;
  readonly message: string;
  /** Further lines, such as a stack; empty: none. */
  readonly details: string;
  readonly node: string;
  readonly nodePath: string;
  readonly tab: string;
  /** The revision that a deployment has made, or that ran; empty if that does not matter. */
  readonly rev: string;
  readonly runtime: string;
};

type Content = Pick<LogLine, "word" | "tone" | "message"> & Partial<Pick<LogLine, "details" | "rev">>;

/** Events do not change: each is described once, and not each time that others arrive. */
const known = new WeakMap<Event, LogLine>();

/** Undefined: it is not shown. */
export function toLine(event: Event): LogLine | undefined {
  const line = known.get(event) ?? describe(event);
  if (line !== undefined) {
    known.set(event, line);
  }
  return line;
}

function describe(event: Event): LogLine | undefined {
  const content = toContent(event);
  if (content === undefined) {
    return undefined;
  }
  const { nodeId, nodeName, nodeType, flowId, flowLabel, runtime, time } = event;
  const { word, tone, message, details = "", rev = "" } = content;
  const [first = "", ...others] = message.split("\n");
  return {
    key: keyOf(event),
    atMs: time === undefined ? 0 : timestampMs(time),
    word,
    tone,
    message: visibleText(first),
    details: visibleLines(joinLines([others.length === 0 ? "" : message, details])),
    node: visibleText(nodeName === "" ? [nodeType, nodeId].filter((part) => part !== "").join(" ") : nodeName),
    nodePath: nodeId === "" ? "" : nodePath(event),
    tab: visibleText(flowLabel === "" ? flowId : flowLabel),
    rev,
    runtime,
  };
}

/** Different runtimes can have the same positions, and control events have the position of another event. */
export function keyOf({ id, runtime, kind }: Event): string {
  return `${id} ${kind.case ?? ""} ${runtime}`;
}

const { words, messages } = texts;

function toContent({ kind, rev }: Event): Content | undefined {
  switch (kind.case) {
    case "log": {
      const { level, message, count } = kind.value;
      return { ...ofLevel(level), message: withCount(message, count) };
    }
    case "nodeError": {
      const { level, message, stack, line, column, count, caught, truncated } = kind.value;
      const details = [
        line === 0 ? "" : texts.at(line, column),
        caught ? "caught by a catch node" : "",
        stack === "" ? "" : stack,
        truncated ? texts.truncated : "",
      ];
      return { ...ofLevel(level), message: withCount(message, count), details: joinLines(details) };
    }
    case "debug": {
      const { topic, property, format, truncated } = kind.value;
      const value = formatDebugValue(kind.value);
      const label = [topic, property].filter((part) => part !== "").join(" · ");
      const details = joinLines([format, formatDebugValue(kind.value, 2), truncated ? texts.truncated : ""]);
      return { word: words.debug, tone: "neutral", message: label === "" ? value : `${label}: ${value}`, details };
    }
    case "deployment": {
      const { outcome, failure, message } = kind.value;
      const [word, tone] = describeOutcome(outcome);
      return { word, tone, message: messages.deployment(describeCaller(kind.value), message), details: failure, rev };
    }
    case "runtimeState": {
      const [word, tone] = describeState(kind.value.state);
      return { word, tone, message: kind.value.message || messages.state, rev };
    }
    case "health": {
      const [word, tone] = describeHealth(kind.value.state);
      return { word, tone, message: messages.health, details: joinLines(kind.value.conditions.map(describeCondition)) };
    }
    default:
      return toOther(kind);
  }
}

function toOther(kind: Event["kind"]): Content | undefined {
  switch (kind.case) {
    case "nodeStatus": {
      const { text, fill, shape } = kind.value;
      const mark = [fill, shape].filter((part) => part !== "").join(" ");
      const shown = [mark === "" ? "" : `[${mark}]`, text].filter((part) => part !== "").join(" ");
      return { word: words.status, tone: "neutral", message: shown === "" ? messages.statusCleared : shown };
    }
    case "module": {
      const { action, state, name, version, message } = kind.value;
      const tone = state === "failed" ? "bad" : "info";
      return {
        word: words.module,
        tone,
        message: `${messages.module(action, name, version)}: ${state}`,
        details: message,
      };
    }
    case "token": {
      const { action, subject, user } = kind.value;
      return { word: words.token, tone: "info", message: messages.token(action, subject, nameOf(user)) };
    }
    case "users": {
      const { action, detail } = kind.value;
      return { word: words.users, tone: action === "rejected" ? "bad" : "info", message: action, details: detail };
    }
    case "proposal": {
      const { id, state, user, tokenName, message, reason } = kind.value;
      const text = messages.proposal(id, describeCaller({ user, tokenName }), message);
      return { word: wordOf(state), tone: "info", message: text, details: reason };
    }
    case "dropped": {
      const { count, reason } = kind.value;
      const reasons: Readonly<Record<string, string>> = messages.reasons;
      return { word: words.missing, tone: "warn", message: `${messages.missing(count)}: ${reasons[reason] ?? reason}` };
    }
    case "snapshotEnd":
    case "bookmark":
      return undefined;
    default:
      // Of a newer service.
      return { word: words.unknown, tone: "neutral", message: "" };
  }
}

function ofLevel(level: LogLevel): Pick<LogLine, "word" | "tone"> {
  const tone =
    level === LogLevel.WARN ? "warn" : level === LogLevel.FATAL || level === LogLevel.ERROR ? "bad" : "neutral";
  return { word: words.levels[level] ?? words.unknown, tone };
}

function withCount(message: string, count: number): string {
  return count > 1 ? `${message} ${texts.times(count)}` : message;
}

function joinLines(lines: readonly string[]): string {
  return lines.filter((line) => line !== "").join("\n");
}

function visibleLines(text: string): string {
  return text
    .replaceAll("\t", "  ")
    .split("\n")
    .map((line) => visibleText(line))
    .join("\n");
}

function nameOf(user: string): string {
  return describeCaller({ user, tokenName: "" });
}

function wordOf(state: ProposalState): string {
  return ProposalStateSchema.value[state]?.localName.toLowerCase() ?? words.proposal;
}

/** True if a line contains the lower-case text, ignoring case. */
export function contains({ message, details, node, tab, word }: LogLine, text: string): boolean {
  return text === "" || [message, details, node, tab, word].some((part) => part.toLowerCase().includes(text));
}

/** Lines of a text file, oldest first. */
export function toText(lines: readonly LogLine[]): string {
  return lines
    .toReversed()
    .map(({ atMs, word, tab, node, message, details, runtime }) => {
      const source = [runtime, tab, node].filter((part) => part !== "").join(" / ");
      const first = [new Date(atMs).toISOString(), word, source === "" ? "" : `[${source}]`, message];
      return [first.filter((part) => part !== "").join(" "), ...details.split("\n").filter((line) => line !== "")].join(
        "\n    ",
      );
    })
    .join("\n");
}
