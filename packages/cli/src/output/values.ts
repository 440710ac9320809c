import type { DescEnum } from "@bufbuild/protobuf";
import type { GenEnum } from "@bufbuild/protobuf/codegenv2";
import { type Timestamp, timestampDate, timestampNow } from "@bufbuild/protobuf/wkt";
import {
  type Condition,
  ConditionKindSchema,
  DeploymentOutcome,
  DeploymentOutcomeSchema,
  type NodeStatusEvent,
  type Revision,
  RevisionCause,
  RevisionCauseSchema,
} from "@flowgate/client";
import type { Style, Styled } from "./output.ts";
import { printable } from "../printable.ts";

/** The value of an enum in lower case: `automatic undo`. Empty if it is unspecified. */
export function formatEnum(schema: DescEnum, value: number): string {
  return value === 0 ? "" : (schema.value[value]?.localName.toLowerCase().replaceAll("_", " ") ?? String(value));
}

/** The inverse of `formatEnum` for words that are known; 0, unspecified, otherwise. */
export function parseEnum<T extends number>(schema: GenEnum<T>, word: string): T {
  return (schema.values.find(({ number }) => formatEnum(schema, number) === word)?.number ?? 0) as T;
}

/** Created when it is first used: that takes 15 ms, and most commands print no time. */
let localFormat: Intl.DateTimeFormat | undefined;

/** In the time zone of this machine: `2026-03-01 09:30:00`. Empty if absent. */
export function formatTime(time: Timestamp | undefined): string {
  if (time === undefined) {
    return "";
  }
  localFormat ??= new Intl.DateTimeFormat("sv-SE", { dateStyle: "short", timeStyle: "medium" });
  return localFormat.format(timestampDate(time));
}

/** The same without seconds, for tables: `2026-03-01 09:30`. */
export function formatMinute(time: Timestamp | undefined): string {
  return formatTime(time).slice(0, -":00".length);
}

/** For tables: the time if it is today, otherwise the day: `09:30:00` or `2026-03-01`. */
export function formatRecent(time: Timestamp | undefined): string {
  const [day = "", timeOfDay = ""] = formatTime(time).split(" ");
  const [today] = formatTime(timestampNow()).split(" ");
  return day === today ? timeOfDay : day;
}

/** A user and, if it is a named one, the token of a request: `ada (token ci)`. */
export function describeCaller({ user, tokenName }: Pick<Revision, "user" | "tokenName">): string {
  return printable(tokenName === "" ? user : `${user} (token ${tokenName})`);
}

/** `revision 4fGx0aQz ("new invoices", by ada, 2026-03-01 09:30:00)` */
export function describeRevision({ rev, message, user, createTime }: Revision): string {
  const parts = [
    message === "" ? undefined : JSON.stringify(message),
    user === "" ? undefined : `by ${user}`,
    formatTime(createTime),
  ].filter((part) => part !== undefined);
  return printable(`revision ${shortRev(rev)} (${parts.join(", ")})`);
}

/** The beginning of a rev that tables show. It is unambiguous in practice. */
export function shortRev(rev: string): string {
  return rev.slice(0, 8);
}

/** How a revision was made: `deployment`, `restore of 4fGx0aQz`, or `undo, back to 4fGx0aQz`. */
export function describeCause({ cause, restoredRev }: Revision): string {
  const word = formatEnum(RevisionCauseSchema, cause);
  if (restoredRev === "") {
    return word;
  }
  // An undo does not name the revision that was undone, but the one whose flows are active again.
  return `${word}${cause === RevisionCause.RESTORE ? " of" : ", back to"} ${restoredRev}`;
}

/** `restarted function f in orders, 4 times, last 2026-03-01 09:30:00: it ran out of memory` */
export function describeCondition(condition: Condition): string {
  const { kind, count, lastTime, message, nodeType, nodeName, nodeId, flowLabel, flowId } = condition;
  const name = nodeName === "" ? nodeId : nodeName;
  const place = flowLabel || flowId;
  const node = nodeId === "" ? "" : ` ${nodeType} ${name}${place === "" ? "" : ` in ${place}`}`;
  const times = count === 1 ? "" : `, ${count} times`;
  return printable(`${formatEnum(ConditionKindSchema, kind)}${node}${times}, last ${formatTime(lastTime)}: ${message}`);
}

/** `, 4 restarts`, after the health of flows. */
export function describeRestarts(restarts: number): string {
  return restarts === 0 ? "" : `, ${restarts} ${restarts === 1 ? "restart" : "restarts"}`;
}

export function styleOutcome(outcome: DeploymentOutcome): Styled {
  return { style: outcomeStyles[outcome] ?? "yellow", text: formatEnum(DeploymentOutcomeSchema, outcome) };
}

/** `[red ring] disconnected`, in this color. */
export function styleNodeStatus({ text, fill, shape }: NodeStatusEvent): Styled {
  const mark = [fill, shape].filter((part) => part !== "").join(" ");
  const shown = [mark === "" ? "" : `[${mark}]`, text].filter((part) => part !== "").join(" ");
  return { style: fillStyles.get(fill) ?? [], text: shown };
}

/** Flows can set any text as the color. */
const fillStyles: ReadonlyMap<string, Style> = new Map([
  ["red", "red"],
  ["yellow", "yellow"],
  ["green", "green"],
  ["blue", "cyan"],
]);

const outcomeStyles: Readonly<Record<number, Style>> = {
  [DeploymentOutcome.RUNNING]: "green",
  [DeploymentOutcome.DEGRADED]: "yellow",
  [DeploymentOutcome.FAILED]: "red",
};
