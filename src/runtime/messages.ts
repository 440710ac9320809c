import type { DeploymentType } from "../flows/configuration.ts";
import { maxLineChars } from "./log-budget.ts";

/** The gravest first. */
const logLevels = ["fatal", "error", "warn", "info", "debug", "trace"] as const;

export type LogLevel = (typeof logLevels)[number];

export type LogEntry = {
  readonly level: LogLevel;
  readonly message: string;
  /** Of the node that said it; absent where it was not a node. */
  readonly nodeId?: string;
  readonly nodeType?: string;
  /** The label that its author gave it. */
  readonly nodeName?: string;
  /** Of the deployment that it was said during; absent where that belongs to no trace. */
  readonly traceparent?: string;
};

/** Credentials as JSON carries them: a node may be called `__proto__`, so entries and not an object. */
export type CredentialEntries = readonly (readonly [nodeId: string, set: readonly (readonly [string, string])[]])[];

/** The first message; the child answers `booted` once it can take flows. */
export type Boot = {
  readonly kind: "boot";
  readonly userDir: string;
  readonly host: string;
  readonly httpPort: number;
  readonly nodeCloseTimeoutMs: number;
  readonly logLevel: LogLevel;
  /** Whether flows may start worker threads; the child gives the right up otherwise. */
  readonly worker: boolean;
};

/** Answered by `begun` and `deployed` with the same id. One at a time. Its payload is the flows: a JSON array of nodes, in UTF-8. */
export type Deploy = {
  readonly kind: "deploy";
  readonly id: number;
  readonly type: DeploymentType;
  /** All of them: what is not here does not exist. */
  readonly credentials: CredentialEntries;
  /** The nodes whose credentials are others than in the deployment before this one. */
  readonly credentialsChanged: readonly string[];
  /** Where it belongs (W3C Trace Context, section 3.2); absent outside of any trace. */
  readonly traceparent?: string;
};

type Stop = { readonly kind: "stop" };

export type ToChild = Boot | Deploy | Stop;

export type Booted = { readonly kind: "booted"; readonly httpPort: number };

/** It has received a deployment, and lets go of what ran before. */
export type Begun = { readonly kind: "begun"; readonly id: number };

export type Deployed = {
  readonly kind: "deployed";
  readonly id: number;
  /** Why the runtime can't start these flows; absent where it started them. */
  readonly failure?: string;
  /** The node types that are not installed, where that is why. */
  readonly missingTypes?: readonly string[];
  /** It refused them before it changed anything. */
  readonly rejected?: true;
};

export type FromChild =
  | Booted
  | Begun
  | Deployed
  | { readonly kind: "beat" }
  | { readonly kind: "log"; readonly entry: LogEntry }
  /** Instead of `booted`, from a child that is about to exit: HTTP-in nodes can't listen. */
  | { readonly kind: "unbound"; readonly code: string }
  /** The last word of a child that is about to exit. */
  | { readonly kind: "dying"; readonly cause: string };

/** How often a child tells that its event loop turns. */
export const heartbeatIntervalMs = 250;

/** The file descriptor of the pipe, in the child, that carries the messages in both directions. */
export const messageFd = 3;

/** Where in the child the watch pipe is: it ends when the parent does. */
export const watchFd = 4;

const maxNameChars = 256;
const maxNames = 1_000;

/**
 * What a child has sent, where it is one of the messages above. Flows reach the channel too: what they
 * put into it must not be able to harm the parent, by its length neither.
 */
export function parseFromChild(value: unknown): FromChild | undefined {
  if (!isRecord(value)) return undefined;
  switch (value["kind"]) {
    case "beat":
      return { kind: "beat" };
    case "booted":
      return typeof value["httpPort"] === "number" ? { kind: "booted", httpPort: value["httpPort"] } : undefined;
    case "unbound":
      return typeof value["code"] === "string"
        ? { kind: "unbound", code: value["code"].slice(0, maxNameChars) }
        : undefined;
    case "begun":
      return typeof value["id"] === "number" ? { kind: "begun", id: value["id"] } : undefined;
    case "deployed":
      return typeof value["id"] === "number"
        ? {
            kind: "deployed",
            id: value["id"],
            ...(typeof value["failure"] === "string" && { failure: value["failure"].slice(0, maxLineChars) }),
            ...(Array.isArray(value["missingTypes"]) && { missingTypes: parseNames(value["missingTypes"]) }),
            ...(value["rejected"] === true && { rejected: true }),
          }
        : undefined;
    case "dying":
      return typeof value["cause"] === "string"
        ? { kind: "dying", cause: value["cause"].slice(0, maxLineChars) }
        : undefined;
    case "log": {
      const entry = parseLogEntry(value["entry"]);
      return entry && { kind: "log", entry };
    }
    default:
      return undefined;
  }
}

function parseNames(values: readonly unknown[]): string[] {
  return values
    .slice(0, maxNames)
    .filter((value) => typeof value === "string")
    .map((name) => name.slice(0, maxNameChars));
}

function parseLogEntry(value: unknown): LogEntry | undefined {
  if (!isRecord(value)) return undefined;
  const { message, nodeId, nodeType, nodeName, traceparent } = value;
  const level = logLevels.find((known) => known === value["level"]);
  if (level === undefined || typeof message !== "string") return undefined;
  return {
    level,
    message: message.slice(0, maxLineChars),
    ...(typeof nodeId === "string" && { nodeId: nodeId.slice(0, maxNameChars) }),
    ...(typeof nodeType === "string" && { nodeType: nodeType.slice(0, maxNameChars) }),
    ...(typeof nodeName === "string" && { nodeName: nodeName.slice(0, maxNameChars) }),
    ...(typeof traceparent === "string" && { traceparent: traceparent.slice(0, maxNameChars) }),
  };
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null;
}
