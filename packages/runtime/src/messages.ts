import { type Fields, isFields } from "@flowgate/base/fields";
import type { ModuleLists } from "@flowgate/base/module-rules";
import type { CredentialValue, DeploymentType } from "@flowgate/flows";
import { type Fault, parseFault } from "./fault.ts";
import type { Instant } from "./fence.ts";
import type { Certificate, FlowSettings } from "./flow-settings.ts";
import { type FlowSpans, parseFlowSpans } from "./flow-spans.ts";
import type { NetworkAccess } from "./network-policy.ts";
import { type Measurements, parseMeasurements } from "./measurements.ts";
import {
  type NodeEvents,
  type NodeRef,
  type ReadText,
  cutText,
  maxEventCount,
  maxNameChars,
  parseNodeEvents,
  parseNodeRef,
} from "./node-events.ts";
import { maxLineChars } from "./output.ts";
import type { Part } from "./part-reader.ts";

/** By severity, the most severe first. */
const logLevels = ["fatal", "error", "warn", "info", "debug", "trace"] as const;

export type LogLevel = (typeof logLevels)[number];

/** With the node that logged the entry, if it was logged by one. */
export type LogEntry = Partial<NodeRef> & {
  readonly level: LogLevel;
  readonly message: string;
  /** How many entries are missing before this one. */
  readonly dropped?: number;
  /** The trace context of the deployment during which it was logged; absent outside of a trace. */
  readonly traceparent?: string;
};

/** Credentials as JSON. Entries instead of an object, because `__proto__` is a valid node id. */
export type CredentialEntries = readonly (readonly [
  nodeId: string,
  set: readonly (readonly [string, CredentialValue])[],
])[];

/** The first message: the child loads the flow runtime. The payload is the settings that modules have stored, as JSON of `StoredSettings`, if there are any. */
export type Initialize = {
  readonly kind: "initialize";
  /** The process id of the parent; absent if the child can't see it. */
  readonly parentPid?: number;
  readonly userDir: string;
  /** The folder of added modules; absent: none are loaded. */
  readonly modulesDir?: string;
  /** Which of them may be loaded, in the form of Node-RED's `allowList` and `denyList`; absent: all. */
  readonly moduleLists?: ModuleLists;
  /** Which of them function nodes may load, in the same form, without versions; absent: all. */
  readonly functionLists?: ModuleLists;
  /** The sets of nodes that are not to be loaded, as `module/set`; absent: none. */
  readonly disabledSets?: readonly string[];
  readonly nodeCloseTimeoutMs: number;
  readonly settings: FlowSettings;
  readonly logLevel: LogLevel;
  readonly network: NetworkAccess;
  /** True if flows may start worker threads. If not, the child drops the permission. */
  readonly worker: boolean;
  /** The measurements that the child takes; absent: none. */
  readonly measures?: Measures;
  /** The fraction of messages that is traced, if their caller has not decided; absent: messages are not traced. */
  readonly traceRatio?: number;
  /** True if the service can ask for the routes of nodes; absent: it can't. */
  readonly hasAdmin?: true;
  /** When the child ends, unless a later deadline arrives over the watch pipe; absent: never. */
  readonly deadline?: Instant;
};

/** The measurements to take. */
type Measures = "tabs" | "nodes";

/** Settings that modules have stored, by name: their JSON; null: there is none any more. */
export type StoredSettings = readonly (readonly [name: string, json: string | null])[];

/**
 * The child opens the port of HTTP-in nodes, and replies `ready` when it can receive deployments. The payload is the context in the store of
 * the service, if flows use it: as JSON of `ContextPart`.
 */
export type Listen = {
  readonly kind: "listen";
  readonly host: string;
  readonly httpPort: number;
  /** Absent: without TLS. */
  readonly certificate?: Certificate;
  /** Those that were changed since `Initialize`; absent: none. */
  readonly settings?: StoredSettings;
};

/** Replaces the certificate of the port, for new connections. */
type ReplaceCertificate = { readonly kind: "certificate"; readonly certificate: Certificate };

/**
 * The child replies `deploy-started` and then `deployed`, both with the same id. Only one deployment is in progress at a
 * time. The payload is the flows: a JSON array of nodes in UTF-8.
 */
export type Deploy = {
  readonly kind: "deploy";
  readonly id: number;
  readonly type: DeploymentType;
  /** The complete credentials of all nodes. */
  readonly credentials: CredentialEntries;
  /** The ids of the nodes whose credentials differ from those of the previous deployment. */
  readonly credentialsChanged: readonly string[];
  /** True if the stops of all nodes are reported: an earlier process has left errors of some of them. Otherwise only of those with counts. */
  readonly reportsStops: boolean;
  /** W3C Trace Context, section 3.2; absent outside of a trace. */
  readonly traceparent?: string;
};

/**
 * The child loads the modules that were added to `modulesDir` or enabled since it has loaded modules, gives up those that were disabled, and
 * replies `modules-loaded`. Not sent while a deployment is in progress.
 */
export type LoadModules = {
  readonly kind: "load-modules";
  readonly modulesDir: string;
  /** As in `Initialize`. */
  readonly moduleLists: ModuleLists;
  readonly functionLists: ModuleLists;
  readonly disabledSets: readonly string[];
};

/** The child does what the procedure is for, and sends `reply` messages with the same id. The payload is the argument as JSON. See calls.ts. */
export type Call = { readonly kind: "call"; readonly id: number; readonly procedure: string };

/** Keeps flows from a port of the service, its store, its collector or a token issuer. Can be sent before `initialize`. */
type ProtectPort = { readonly kind: "protect-port"; readonly port: number };

/** True if the child reports debug messages. It does not at first. */
type ReportDebug = { readonly kind: "report-debug"; readonly isWanted: boolean };

/** Confirms that the data of a `node-write` is durable, or tells why it is not. */
type NodeWritten = { readonly kind: "node-written"; readonly id: number; readonly problem?: string };

/** The child serves the routes that nodes have registered, over its own pipe. Sent once. */
type ServeAdmin = { readonly kind: "serve-admin" };

type Stop = { readonly kind: "stop" };

export type ToChild =
  | Initialize
  | Listen
  | ReplaceCertificate
  | Deploy
  | LoadModules
  | Call
  | ProtectPort
  | ReportDebug
  | NodeWritten
  | ServeAdmin
  | Stop;

export type Ready = {
  readonly kind: "ready";
  readonly httpPort: number;
  /** The installed node types; absent if they are too many for a message. */
  readonly nodeTypes?: readonly string[];
};

/** The child has loaded the modules that were added, or has logged why it can't. */
export type ModulesLoaded = {
  readonly kind: "modules-loaded";
  /** Only a new process can do it. */
  readonly isRefused?: true;
} & Pick<Ready, "nodeTypes">;

/** The child has received a deployment and starts to replace the previous one. */
type DeployStarted = { readonly kind: "deploy-started"; readonly id: number };

export type FlowsDeployed = {
  readonly kind: "deployed";
  readonly id: number;
  /** Why the runtime can't start these flows; absent if it started them. */
  readonly failure?: string;
  /** The node types that are not installed, if that is the failure. */
  readonly missingTypes?: readonly string[];
  /** Modules that the code of nodes requires are not installed. */
  readonly lacksModules?: true;
  /** Type, name and id of the nodes that logged an error while they were started. */
  readonly failedNodes?: readonly string[];
  /** Why a part of the flows, such as a tab, was not started, while others run. */
  readonly notStarted?: string;
  /** The runtime rejected the flows before it changed anything. */
  readonly rejected?: true;
};

/** A part of changes of context for the store of the service, as base64: a JSON array of store, scope, key, and JSON or null. */
export type ContextPart = { readonly kind: "context" } & Part;

/** A part of what a node stores: a JSON array as `parseNodeWrite` reads it. The parent replies `node-written` with its id. */
type NodeWritePart = { readonly kind: "node-write" } & Part;

/** A part of the result of a call, as base64. */
export type Reply = { readonly kind: "reply"; readonly id: number } & Part;

type Heartbeat = { readonly kind: "heartbeat" };

type Log = { readonly kind: "log"; readonly entry: LogEntry };

/** Sent instead of `ready` if the port of HTTP-in nodes can't be opened. The child exits after it. */
export type ListenFailed = { readonly kind: "listen-failed"; readonly address: string; readonly code: string };

/** An uncaught exception or unhandled rejection. The child exits after it. */
export type Crashed = { readonly kind: "crashed"; readonly cause: string; readonly fault?: Fault };

export type FromChild =
  | Heartbeat
  | Log
  | NodeEvents
  | Measurements
  | FlowSpans
  | Ready
  | ListenFailed
  | ModulesLoaded
  | DeployStarted
  | FlowsDeployed
  | Reply
  | ContextPart
  | NodeWritePart
  | Crashed;

/** The interval at which a child sends heartbeats, which a blocked event loop delays. */
export const heartbeatIntervalMs = 250;

/** The child's file descriptor of the pipe that carries messages in both directions. */
export const messageFd = 3;

/** The child's file descriptor of the pipe that closes when the parent exits. It carries deadlines, see fence.ts. */
export const watchFd = 4;

/** The child's file descriptor of the pipe for requests to the routes of nodes, see admin-channel.ts. Open only if there can be any. */
export const adminFd = 5;

const maxNames = 1_000;

/** A longer list of node types is not sent, because it would not fit into a line of the channel. */
export const maxNodeTypes = 2_000;
export const maxNodeTypesChars = 64 * 1024;

/**
 * One for each kind of message. Flows can write to the channel too, so values are checked, and texts are redacted and limited in their
 * lengths by `read`. Context is kept as it is, parts of replies are redacted when they are complete, and node types are those of modules.
 */
const decoders: {
  readonly [Kind in FromChild["kind"]]: (
    fields: Fields,
    read: ReadText,
  ) => Extract<FromChild, { kind: Kind }> | undefined;
} = {
  heartbeat: () => ({ kind: "heartbeat" }),
  log(fields, read) {
    const entry = parseLogEntry(fields["entry"], read);
    return entry && { kind: "log", entry };
  },
  nodes: parseNodeEvents,
  ready({ httpPort, nodeTypes }) {
    if (typeof httpPort !== "number") {
      return undefined;
    }
    return { kind: "ready", httpPort, ...parseNodeTypes(nodeTypes) };
  },
  "modules-loaded": ({ isRefused, nodeTypes }) => ({
    kind: "modules-loaded",
    ...(isRefused === true && { isRefused }),
    ...parseNodeTypes(nodeTypes),
  }),
  "listen-failed": ({ address, code }, read) =>
    isWord(address) && isWord(code)
      ? { kind: "listen-failed", address: read(address, maxNameChars), code: read(code, maxNameChars) }
      : undefined,
  "deploy-started": ({ id }) => (typeof id === "number" ? { kind: "deploy-started", id } : undefined),
  deployed({ id, failure, missingTypes, lacksModules, failedNodes, notStarted, rejected }, read) {
    if (typeof id !== "number") {
      return undefined;
    }
    return {
      kind: "deployed",
      id,
      ...(typeof failure === "string" && { failure: read(failure, maxLineChars) }),
      ...(Array.isArray(missingTypes) && { missingTypes: parseNames(missingTypes, read) }),
      ...(lacksModules === true && { lacksModules }),
      ...(Array.isArray(failedNodes) && { failedNodes: parseNames(failedNodes, read) }),
      ...(typeof notStarted === "string" && { notStarted: read(notStarted, maxLineChars) }),
      ...(rejected === true && { rejected }),
    };
  },
  measurements: parseMeasurements,
  spans: parseFlowSpans,
  reply(fields) {
    const { id } = fields;
    const part = parsePart(fields);
    return typeof id === "number" && part !== undefined ? { kind: "reply", id, ...part } : undefined;
  },
  context(fields) {
    const part = parsePart(fields);
    return part && { kind: "context", ...part };
  },
  "node-write"(fields) {
    const part = parsePart(fields);
    return part && { kind: "node-write", ...part };
  },
  crashed({ cause, fault: value }, read) {
    const fault = parseFault(value, read);
    return typeof cause === "string"
      ? { kind: "crashed", cause: read(cause, maxLineChars), ...(fault !== undefined && { fault }) }
      : undefined;
  },
};

/** Parses a message of the child; undefined if it is not valid. */
export function parseFromChild(value: unknown, read: ReadText): FromChild | undefined {
  if (!isFields(value)) {
    return undefined;
  }
  const kind = value["kind"];
  return typeof kind === "string" && isKind(kind) ? decoders[kind](value, read) : undefined;
}

function isKind(kind: string): kind is FromChild["kind"] {
  return Object.hasOwn(decoders, kind);
}

function parsePart({ part, isLast }: Fields): Part | undefined {
  return typeof part === "string" && typeof isLast === "boolean" ? { part, isLast } : undefined;
}

function parseNodeTypes(value: unknown): Pick<Ready, "nodeTypes"> {
  return Array.isArray(value) ? { nodeTypes: parseNames(value, cutText, maxNodeTypes) } : {};
}

function parseNames(values: readonly unknown[], read: ReadText, max = maxNames): string[] {
  return values
    .slice(0, max)
    .filter((value) => typeof value === "string")
    .map((name) => read(name, maxNameChars));
}

function parseLogEntry(value: unknown, read: ReadText): LogEntry | undefined {
  if (!isFields(value)) {
    return undefined;
  }
  const { message, dropped, traceparent } = value;
  const level = logLevels.find((known) => known === value["level"]);
  if (level === undefined || typeof message !== "string") {
    return undefined;
  }
  return {
    level,
    message: read(message, maxLineChars),
    ...parseNodeRef(value, read),
    ...(typeof dropped === "number" && dropped >= 0 && { dropped: Math.min(Math.floor(dropped), maxEventCount) }),
    ...(typeof traceparent === "string" && { traceparent: read(traceparent, maxNameChars) }),
  };
}

/** True if a text is short and can be part of a text of the service: an address or an error code. */
function isWord(value: unknown): value is string {
  return typeof value === "string" && /^[\w.:%-]{1,256}$/.test(value);
}
