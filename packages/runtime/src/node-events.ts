import { type Fields, isFields } from "@flowgate/base/fields";
import { maxLineChars } from "./output.ts";
import { type Redact, redactJson } from "./redaction.ts";

// What the child reports of the nodes that it runs. Flows can write these messages too: values are checked, and their lengths limited.

/** A node of the flows as they were deployed, though the runtime gives the nodes of each subflow instance ids of their own. */
export type NodeRef = {
  readonly nodeId: string;
  readonly nodeType?: string;
  /** The node's label in the editor. */
  readonly nodeName?: string;
  /** The tab that contains the node, or the outermost instance of its subflow. */
  readonly flowId?: string;
  readonly flowLabel?: string;
  /** The ids of the subflow instances that contain the node, the outermost first. */
  readonly subflowPath?: readonly string[];
};

/** The last status that a node has set. Without any field, it was cleared. */
export type NodeStatus = NodeRef & {
  readonly kind: "status";
  readonly text?: string;
  readonly fill?: string;
  readonly shape?: string;
};

/** An error or a warning, whether or not a catch node received it. */
export type NodeError = NodeRef & {
  readonly kind: "error";
  readonly level: NodeErrorLevel;
  readonly message: string;
  /** The calls, without those inside of the runtime. Lines of function nodes count from the first one of their code. */
  readonly stack?: string;
  readonly line?: number;
  readonly column?: number;
  /** How often it happened since it was reported last. */
  readonly count: number;
  readonly caught?: boolean;
  /** True if a text was shortened. */
  readonly truncated?: boolean;
};

const errorLevels = ["fatal", "error", "warn"] as const;

export type NodeErrorLevel = (typeof errorLevels)[number];

/** True if a log entry is also reported as an error of a node. */
export function isNodeError({ nodeId, level }: { readonly nodeId?: string; readonly level: string }): boolean {
  return nodeId !== undefined && errorLevels.some((known) => known === level);
}

/** A debug message, encoded as for the editor. */
export type NodeDebug = NodeRef & {
  readonly kind: "debug";
  readonly topic?: string;
  readonly property?: string;
  readonly format?: string;
  readonly value: string;
  readonly truncated?: boolean;
};

/** A message of a module to its part in Node-RED's editor. It belongs to no node. */
export type EditorMessage = {
  readonly kind: "editor";
  readonly topic: string;
  readonly json: string;
  /** True if editors that subscribe to the topic later receive it too, until there is another one. */
  readonly retained?: boolean;
};

/**
 * True if modules may publish under a topic. The other ones are those of the service, and notifications with which the editor does more than
 * show their text.
 */
export function isModuleTopic(topic: string): boolean {
  return (
    topic.length <= maxNameChars &&
    !/^(?:$|debug$|hb$|(?:status|multiplayer|event-log)(?:\/|$))/.test(topic) &&
    (!/^notification(?:\/|$)/.test(topic) || isModuleNotification(topic))
  );
}

function isModuleNotification(topic: string): boolean {
  const [, id] = /^notification\/([a-z][\w-]*)$/i.exec(topic) ?? [];
  return (
    id !== undefined &&
    !/^(?:(?:runtime|flowgate)-.*|flows-run-state|node|plugin|project-update|restart-required|update-available)$/.test(
      id,
    )
  );
}

/** The counts and last errors of a node since it was started. */
export type NodeCounts = NodeRef & {
  readonly kind: "counts";
  readonly messages: number;
  readonly errors: number;
  readonly warnings: number;
  /** In Unix time; absent without messages. */
  readonly lastMessageMs?: number;
};

/** A node was stopped, so that its counts are void. */
type NodeStopped = NodeRef & { readonly kind: "stopped" };

export type NodeEvent = NodeStatus | NodeError | NodeDebug | NodeCounts | NodeStopped | EditorMessage;

/** The kinds of which some can be missing. */
const droppableKinds = ["status", "error", "debug", "editor"] as const;

export type DroppedEvents = Readonly<Partial<Record<(typeof droppableKinds)[number], number>>>;

/** Some of what has happened since the message before. */
export type NodeEvents = {
  readonly kind: "nodes";
  readonly events: readonly NodeEvent[];
  /** The events that are missing. */
  readonly dropped?: DroppedEvents;
};

/** Receives what the runtime process reports of its nodes, and controls what it reports. */
export interface NodeObserver {
  onEvents(events: NodeEvents): void;
  /** The process has ended, and with it what is known of its nodes. */
  onEnd(): void;
  /** True if nodes have ended an earlier process: their errors hold until they are stopped. */
  hasLeftErrors(): boolean;
  /** True if debug messages, and those of modules to editors, are reported. */
  wantsDebug(): boolean;
  /** Calls the listener when `wantsDebug` may have changed. Disposing ends the subscription. */
  onDemand(listener: () => void): Disposable;
}

/** The size of a message, in bytes of JSON, and of one event in it. */
export const maxMessageBytes = 60 * 1024;
export const maxTextBytes = 16 * 1024;

/** The JSON of an editor message, such as a small image, within that of an event. */
export const maxEditorBytes = 48 * 1024;

export const maxNameChars = 256;
export const maxStatusChars = 1_000;
export const maxPathLength = 16;

/** More than fit into a message. */
const maxEvents = 1_000;

/** Ignores events that are not valid; undefined if the message is not. */
export function parseNodeEvents({ events, dropped }: Fields, read: ReadText): NodeEvents | undefined {
  if (!Array.isArray(events)) {
    return undefined;
  }
  return {
    kind: "nodes",
    events: events.slice(0, maxEvents).flatMap((event) => parseNodeEvent(event, read) ?? []),
    ...(isFields(dropped) && { dropped: parseDropped(dropped) }),
  };
}

function parseNodeEvent(value: unknown, read: ReadText): NodeEvent | undefined {
  if (!isFields(value)) {
    return undefined;
  }
  if (value["kind"] === "editor") {
    return parseEditorMessage(value, read);
  }
  const ref = parseNodeRef(value, read);
  const { nodeId, ...others } = ref;
  if (nodeId === undefined) {
    return undefined;
  }
  const node = { nodeId, ...others };
  switch (value["kind"]) {
    case "status":
      return {
        kind: "status",
        ...node,
        ...parseTexts(["text"], value, read, maxStatusChars),
        ...parseTexts(["fill", "shape"], value, read),
      };
    case "error":
      return parseNodeError(node, value, read);
    case "debug":
      return typeof value["value"] !== "string"
        ? undefined
        : {
            kind: "debug",
            ...node,
            value: read(value["value"], maxTextBytes, value["truncated"] === true),
            ...parseTexts(["topic", "property", "format"], value, read),
            ...(value["truncated"] === true && { truncated: true }),
          };
    case "counts":
      return {
        kind: "counts",
        ...node,
        messages: parseCount(value["messages"], Number.MAX_SAFE_INTEGER),
        errors: parseCount(value["errors"]),
        warnings: parseCount(value["warnings"]),
        ...(value["lastMessageMs"] !== undefined && { lastMessageMs: parseCount(value["lastMessageMs"], Date.now()) }),
      };
    case "stopped":
      return { kind: "stopped", ...node };
    default:
      return undefined;
  }
}

function parseEditorMessage({ topic, json, retained }: Fields, read: ReadText): EditorMessage | undefined {
  if (typeof topic !== "string" || typeof json !== "string" || json.length > maxEditorBytes || !isModuleTopic(topic)) {
    return undefined;
  }
  const data = readJson(json, read);
  return data === undefined
    ? undefined
    : { kind: "editor", topic: read(topic, maxNameChars), json: data, ...(retained === true && { retained }) };
}

/** Reads the texts in JSON; undefined if it is not valid, or nested too deeply. */
function readJson(json: string, read: ReadText): string | undefined {
  try {
    return JSON.stringify(redactJson(JSON.parse(json), (text) => read(text, maxEditorBytes)));
  } catch (error) {
    if (error instanceof SyntaxError || error instanceof RangeError) {
      return undefined;
    }
    throw error;
  }
}

function parseNodeError(node: NodeRef, value: Fields, read: ReadText): NodeError | undefined {
  const { message, stack, line, column, count } = value;
  const isCut = value["truncated"] === true;
  const level = errorLevels.find((known) => known === value["level"]);
  if (level === undefined || typeof message !== "string") {
    return undefined;
  }
  return {
    kind: "error",
    ...node,
    level,
    message: read(message, maxLineChars, isCut),
    ...(typeof stack === "string" && { stack: read(stack, maxLineChars, isCut) }),
    ...(line !== undefined && { line: parseCount(line) }),
    ...(column !== undefined && { column: parseCount(column) }),
    count: Math.max(1, parseCount(count)),
    ...(value["caught"] === true && { caught: true }),
    ...(isCut && { truncated: true }),
  };
}

/** The fields of a node that are valid. */
export function parseNodeRef(value: Fields, read: ReadText): Partial<NodeRef> {
  const { subflowPath } = value;
  return {
    ...parseTexts(["nodeId", "nodeType", "nodeName", "flowId", "flowLabel"], value, read),
    ...(Array.isArray(subflowPath) && {
      subflowPath: subflowPath
        .slice(0, maxPathLength)
        .filter((id) => typeof id === "string")
        .map((id) => read(id, maxNameChars)),
    }),
  };
}

/** The fields with these names that are text. */
function parseTexts<Name extends string>(
  names: readonly Name[],
  fields: Fields,
  read: ReadText,
  maxChars = maxNameChars,
): { readonly [N in Name]?: string } {
  const texts: { [N in Name]?: string } = {};
  for (const name of names) {
    const value = fields[name];
    if (typeof value === "string") {
      texts[name] = read(value, maxChars);
    }
  }
  return texts;
}

/** Reads a text that flows can write: shortens it, and redacts it then. `isCut`: it was cut before, and may end within a value. */
export type ReadText = (text: string, maxChars: number, isCut?: boolean) => string;

export function createReadText(redact: Redact): ReadText {
  return (text, maxChars, isCut = false) => redact(cutText(text, maxChars), isCut || text.length >= maxChars);
}

/** Shortens a text that flows can write. Lone surrogates, which the cut can leave too, are replaced: events can't be encoded with them. */
export function cutText(text: string, maxChars: number): string {
  // A copy, since the slice of a string keeps all of it in memory.
  return text.length > maxChars ? Buffer.from(text.slice(0, maxChars)).toString() : text.toWellFormed();
}

function parseDropped(fields: Fields): DroppedEvents {
  return Object.fromEntries(
    droppableKinds.filter((kind) => fields[kind] !== undefined).map((kind) => [kind, parseCount(fields[kind])]),
  );
}

/** Events have them as 32-bit numbers. */
export const maxEventCount = 2 ** 32 - 1;

function parseCount(value: unknown, max = maxEventCount): number {
  return typeof value === "number" && Number.isSafeInteger(value) && value >= 0 ? Math.min(value, max) : 0;
}
