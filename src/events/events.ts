import type { MessageInitShape } from "@bufbuild/protobuf";
import { type Event, EventKind, type EventSchema, LogLevel } from "../../gen/flowgate/v1/events_pb.ts";
import { FlowgateError } from "@flowgate/flows/errors";
import type { NodeRef } from "@flowgate/runtime";

/** The kind of an event, as the name of its field in the message. */
export type EventCase = Exclude<Event["kind"]["case"], undefined>;

export type EventInit = Omit<MessageInitShape<typeof EventSchema>, "$typeName" | "id" | "time" | "kind"> & {
  readonly kind: Exclude<MessageInitShape<typeof EventSchema>["kind"], undefined | { case: undefined }>;
};

/** The kinds that clients can select, with their names. */
const selectable: readonly { readonly kind: EventKind; readonly case: EventCase; readonly name: string }[] = [
  { kind: EventKind.DEPLOYMENT, case: "deployment", name: "deployment" },
  { kind: EventKind.RUNTIME_STATE, case: "runtimeState", name: "runtime_state" },
  { kind: EventKind.NODE_STATUS, case: "nodeStatus", name: "node_status" },
  { kind: EventKind.NODE_ERROR, case: "nodeError", name: "node_error" },
  { kind: EventKind.DEBUG, case: "debug", name: "debug" },
  { kind: EventKind.LOG, case: "log", name: "log" },
  { kind: EventKind.MODULE, case: "module", name: "module" },
  { kind: EventKind.TOKEN, case: "token", name: "token" },
  { kind: EventKind.USERS, case: "users", name: "users" },
  { kind: EventKind.PROPOSAL, case: "proposal", name: "proposal" },
  { kind: EventKind.EDITOR_MESSAGE, case: "editorMessage", name: "editor_message" },
  { kind: EventKind.HEALTH, case: "health", name: "health" },
];

/** All kinds but the events that describe the stream itself. */
export const eventCases: ReadonlySet<EventCase> = new Set(selectable.map((each) => each.case));

export function caseOfName(name: string): EventCase | undefined {
  return selectable.find((each) => each.name === name)?.case;
}

export function nameOfCase(kind: Event["kind"]["case"]): string {
  return selectable.find((each) => each.case === kind)?.name ?? "";
}

/** The kinds that the flow runtime reports only while they are wanted. They contain the data that flows process. */
const debugCases: ReadonlySet<EventCase> = new Set(["debug", "editorMessage"]);

/** All kinds that cost the flow runtime nothing. */
export const withoutDebug: ReadonlySet<EventCase> = eventCases.difference(debugCases);

/** True if a filter selects kinds that are reported only then. */
export function wantsDebug({ cases }: Pick<EventFilter, "cases">): boolean {
  return !cases.isDisjointFrom(debugCases);
}

/** The kinds that the journal records. The others would be too many. */
export const recordedCases: ReadonlySet<EventCase> = new Set([
  "deployment",
  "runtimeState",
  "health",
  "nodeError",
  "log",
  "module",
  "token",
  "users",
  "proposal",
]);

export const recordedNames: readonly string[] = selectable
  .filter((each) => recordedCases.has(each.case))
  .map(({ name }) => name);

/** The kinds of which a stream may lack some if there are too many for all streams. */
export const lossyCases: ReadonlySet<EventCase> = new Set(["nodeStatus", "debug", "log", "editorMessage"]);

export type EventFilter = {
  readonly cases: ReadonlySet<EventCase>;
  /** The id of a flow's tab; undefined: any. */
  readonly tab?: string | undefined;
  /** The id, name or type of nodes; undefined: any. */
  readonly node?: string | undefined;
  /** The lowest level of logs and errors; undefined: any. */
  readonly level?: LogLevel | undefined;
};

/** The filter of a request. `allowed` are the kinds that it selects by default. Throws `invalid_argument`. */
export function readFilter(
  request: {
    readonly kinds: readonly EventKind[];
    readonly tab: string;
    readonly node: string;
    readonly level: LogLevel;
  },
  allowed: ReadonlySet<EventCase>,
): EventFilter {
  const cases = request.kinds.map((kind) => {
    const found = selectable.find((each) => each.kind === kind);
    if (found === undefined) {
      const names = selectable.map(({ name }) => name).join(", ");
      throw new FlowgateError("invalid_argument", `kinds: must be one or several of: ${names}`);
    }
    return found.case;
  });
  if (!levels.has(request.level)) {
    throw new FlowgateError("invalid_argument", "level: must be one of: fatal, error, warn, info, debug, trace");
  }
  return {
    cases: cases.length === 0 ? allowed : new Set(cases),
    ...(request.tab !== "" && { tab: request.tab }),
    ...(request.node !== "" && { node: request.node }),
    ...(request.level !== LogLevel.UNSPECIFIED && { level: request.level }),
  };
}

const levels: ReadonlySet<LogLevel> = new Set(Object.values(LogLevel));

/** True if a stream with this filter has the event. It has every event that describes the stream itself. */
export function matches({ cases, tab, node, level }: EventFilter, event: Event): boolean {
  const { kind } = event;
  switch (kind.case) {
    case "snapshotEnd":
    case "dropped":
    case "bookmark":
      return true;
    case undefined:
      return false;
    case "log":
    case "nodeError":
      if (level !== undefined && kind.value.level > level) {
        return false;
      }
      break;
    default:
  }
  return (
    cases.has(kind.case) &&
    (tab === undefined || event.flowId === tab) &&
    (node === undefined || event.nodeId === node || event.nodeName === node || event.nodeType === node)
  );
}

/**
 * Returns the key of the state that an event describes; a snapshot contains only the last event of each key. Undefined
 * for events that are no state.
 */
export function stateKey({ kind, runtime, rev, nodeId, subflowPath }: Event): string | undefined {
  switch (kind.case) {
    case "deployment":
      return `deployment ${rev}`;
    case "runtimeState":
      return `runtime ${runtime}`;
    case "health":
      return `health ${runtime}`;
    case "nodeStatus":
      return `status ${runtime} ${[...subflowPath, nodeId].join("/")}`;
    case "editorMessage":
      return `editor ${runtime} ${kind.value.topic}`;
    default:
      return undefined;
  }
}

/** True if the event says that there is no state any more. */
export function isCleared({ kind }: Event): boolean {
  return (
    (kind.case === "nodeStatus" && kind.value.text === "" && kind.value.fill === "" && kind.value.shape === "") ||
    (kind.case === "editorMessage" && !kind.value.retained)
  );
}

/** The characters of a node's ids and names. */
export function charsOfNode(node: Partial<NodeRef>): number {
  const { nodeId = "", nodeType = "", nodeName = "", flowId = "", flowLabel = "", subflowPath = [] } = node;
  return [nodeId, nodeType, nodeName, flowId, flowLabel, ...subflowPath].reduce((sum, { length }) => sum + length, 0);
}

/** Tells an event from all others. Runtimes may publish different ones at the same position. */
export function identify({ id, runtime }: Event): string {
  return `${id} ${runtime}`;
}

/** About how many bytes the event takes in memory. */
export function sizeOf(event: Event): number {
  const { kind, rev, runtime } = event;
  const parts = kind.case === "health" ? kind.value.conditions : [kind.value ?? {}];
  const texts = parts.flatMap((part) => Object.values(part)).filter((value) => typeof value === "string");
  const chars = texts.reduce((sum, { length }) => sum + length, rev.length + runtime.length + charsOfNode(event));
  // Strings of the runtime are often not Latin-1.
  return 1_000 + 2 * chars;
}

/** The fields of an event that name a node. */
export function nodeFields({
  nodeId = "",
  nodeType,
  nodeName,
  flowId,
  flowLabel,
  subflowPath,
}: Partial<NodeRef>): NodeRef & { readonly subflowPath?: string[] } {
  return {
    nodeId,
    ...(nodeType !== undefined && { nodeType }),
    ...(nodeName !== undefined && { nodeName }),
    ...(flowId !== undefined && { flowId }),
    ...(flowLabel !== undefined && { flowLabel }),
    ...(subflowPath !== undefined && { subflowPath: [...subflowPath] }),
  };
}
