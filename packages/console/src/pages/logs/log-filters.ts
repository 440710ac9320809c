import { EventKind, LogLevel } from "@flowgate/client";
import type { texts } from "../../texts/logs.ts";
import type { LogQuery } from "./log-feed.ts";

export const filterNames = ["kinds", "level", "tab", "node", "since", "until", "text"] as const;

type KindName = keyof typeof texts.kind;

export type Kind = {
  readonly name: KindName;
  readonly kind: EventKind;
  /** Besides that for events; undefined: none. */
  readonly permission?: string;
  /** True if it is selected if no kinds are. */
  readonly isDefault: boolean;
};

const kinds: readonly Kind[] = [
  { name: "log", kind: EventKind.LOG, permission: "logs.read", isDefault: true },
  { name: "node_error", kind: EventKind.NODE_ERROR, isDefault: true },
  { name: "debug", kind: EventKind.DEBUG, permission: "debug.read", isDefault: true },
  { name: "deployment", kind: EventKind.DEPLOYMENT, isDefault: true },
  { name: "runtime_state", kind: EventKind.RUNTIME_STATE, isDefault: true },
  { name: "health", kind: EventKind.HEALTH, isDefault: true },
  { name: "module", kind: EventKind.MODULE, isDefault: true },
  { name: "proposal", kind: EventKind.PROPOSAL, isDefault: true },
  { name: "node_status", kind: EventKind.NODE_STATUS, isDefault: false },
  { name: "token", kind: EventKind.TOKEN, isDefault: false },
  { name: "users", kind: EventKind.USERS, isDefault: false },
];

const levels: ReadonlyMap<string, LogLevel> = new Map<keyof typeof texts.levels, LogLevel>([
  ["fatal", LogLevel.FATAL],
  ["error", LogLevel.ERROR],
  ["warn", LogLevel.WARN],
  ["info", LogLevel.INFO],
  ["debug", LogLevel.DEBUG],
  ["trace", LogLevel.TRACE],
]);

export function permittedKinds(can: (permission: string) => boolean): readonly Kind[] {
  return kinds.filter(({ permission }) => permission === undefined || can(permission));
}

/** The kinds of a filter; the default kinds if it is empty or names none. */
export function parseKinds(filter: string, permitted: readonly Kind[]): readonly Kind[] {
  const names = new Set(filter.split(","));
  const chosen = permitted.filter(({ name }) => names.has(name));
  return chosen.length > 0 ? chosen : permitted.filter(({ isDefault }) => isDefault);
}

/** The filter that selects these kinds; empty for the default kinds. */
export function formatKinds(chosen: readonly Kind[], permitted: readonly Kind[]): string {
  const isDefault = permitted.every((kind) => kind.isDefault === chosen.includes(kind));
  return isDefault ? "" : chosen.map(({ name }) => name).join(",");
}

/** Ignores filters that are no valid level or time. */
export function toQuery(
  { level, tab, node, since, until }: Readonly<Record<"level" | "tab" | "node" | "since" | "until", string>>,
  chosen: readonly Kind[],
): LogQuery {
  const [sinceMs, untilMs] = [Date.parse(since), Date.parse(until)];
  return {
    kinds: chosen.map(({ kind }) => kind),
    level: levels.get(level) ?? LogLevel.UNSPECIFIED,
    tab,
    node,
    ...(!Number.isNaN(sinceMs) && { sinceMs }),
    ...(!Number.isNaN(untilMs) && { untilMs }),
  };
}
