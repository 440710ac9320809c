// Entry point of the child process, and the only module that loads the flow runtime.
import { createServer } from "node:http";
import { createRequire } from "node:module";
import { parseJsonText } from "@flowgate/gateway/json-text";
import type flowRuntime from "@node-red/runtime";
import type flowUtil from "@node-red/util";
import { addressOf, listen } from "../../base/addresses.ts";
import type { FlowNode } from "../../flows/configuration.ts";
import { openParentChannel } from "../channel.ts";
import {
  type Deploy,
  type Deployed,
  type FromChild,
  type Initialize,
  type Listen,
  type LogEntry,
  type Ready,
  type ToChild,
  heartbeatIntervalMs,
  maxNodeTypes,
  maxNodeTypesChars,
} from "../messages.ts";
import { createNetworkPolicy } from "../network-policy.ts";
import { maxLineChars } from "../output.ts";
import {
  createEventWaiter,
  createFlowStorage,
  describeFailure,
  isStartResult,
  markChangedCredentials,
  toCredentialsObject,
  watchTabFailures,
} from "./deployments.ts";
import { createRuntimeLog } from "./log.ts";
import { createNetworkGuard } from "./network-guard.ts";
import { avoidDeepFlowCopy, createSettings, loadModulesFrom } from "./node-red.ts";
import { assertLinksStayInside, hardenSandbox } from "./sandbox-hardening.ts";
import { shareDeadline, startDeadlineWatchdog, startFence, startParentWatchdog } from "./watchdog.ts";

hardenSandbox();

const parent = openParentChannel({
  onMessage: (message, payload) => void handle(message, payload),
  onClose: () => process.kill(0, "SIGKILL"),
});

function exitAfter(message: FromChild): void {
  const exit = () => process.exit(1);
  parent.send(message, exit);
  setTimeout(exit, 500);
}

function crash(error: unknown): void {
  exitAfter({ kind: "crashed", cause: describe(error).slice(0, maxLineChars) });
}

// The state of the process is undefined after either of these.
process.on("uncaughtException", crash);
process.on("unhandledRejection", crash);
// The parent gets these signals of a terminal or service manager too, and stops this process gracefully.
process.on("SIGINT", () => {});
process.on("SIGTERM", () => {});

const networkGuard = createNetworkGuard((message) => parent.send({ kind: "log", entry: { level: "warn", message } }));

setInterval(() => parent.send({ kind: "heartbeat" }), heartbeatIntervalMs);
parent.send({ kind: "heartbeat" });

avoidDeepFlowCopy((message) => parent.send({ kind: "log", entry: { level: "warn", message } }));
// `require`, because imports would be evaluated before the statements above.
const require = createRequire(import.meta.url);
const util = require("@node-red/util") as typeof flowUtil;
const runtime = require("@node-red/runtime") as typeof flowRuntime;
const { getNode } = require("@node-red/runtime/lib/nodes") as { getNode: (id: string) => object | null };

/** The trace context of the deployment in progress. */
let traceparent: string | undefined;

/** The running nodes that have logged an error while they were started, by id. Their messages may contain secrets. */
const failedNodes = new Map<string, string>();

/** Whether an error of this node is one of its start. */
let isStarting = (_id: string): boolean => false;

const log = createRuntimeLog(
  (entry) => {
    const { level, nodeId } = entry;
    if (level === "error" && nodeId !== undefined && isStarting(nodeId)) {
      failedNodes.set(nodeId, describeNode(entry));
    }
    parent.send({ kind: "log", entry: traceparent === undefined ? entry : { ...entry, traceparent } });
  },
  ({ level, message }) => {
    // This warning does not apply: the parent encrypts credentials at rest.
    if (message === util.log._("nodes.credentials.unencrypted")) {
      return undefined;
    }
    // The parent logs the result of each deployment at `info`.
    return level === "info" ? "debug" : level;
  },
);

const storage = createFlowStorage();
const nextEvent = createEventWaiter(util);
const tabFailures = watchTabFailures();
/** Called when a deployment has stopped what it stops, and before it starts nodes. */
let onStart = (): void => {};
util.events.on("flows:starting", () => onStart());
// `httpNode` is used directly, not mounted in another Express app: the HTTP-in node reorders the routes of the root app, and
// only supports the runtime's own version of Express. `httpAdmin` is never mounted, because it has no authentication.
const server = createServer((request, response) => runtime.httpNode(request, response));
let initialized: Promise<void> | undefined;
let closePort: (() => void) | undefined;

async function handle(message: ToChild, payload: Buffer): Promise<void> {
  switch (message.kind) {
    case "initialize":
      initialized = initialize(message);
      await initialized;
      return;
    case "listen":
      await initialized;
      closePort = await openPort(message);
      parent.send({ kind: "ready", httpPort: addressOf(server).port, ...(await readNodeTypes()) });
      return;
    case "deploy": {
      parent.send({ kind: "deploy-started", id: message.id });
      traceparent = message.traceparent;
      const result = await deploy(message, parseJsonText(payload.toString()) as FlowNode[]);
      traceparent = undefined;
      parent.send({ kind: "deployed", id: message.id, ...result });
      return;
    }
    case "protect-port":
      networkGuard.protectPort(message.port);
      return;
    case "stop":
      await stop();
  }
}

/** Starts the runtime without flows. */
async function initialize(message: Initialize): Promise<void> {
  // The parent was killed before its death could be signalled to this process.
  if (message.parentPid !== undefined && process.ppid !== message.parentPid) {
    process.kill(0, "SIGKILL");
  }
  if (message.deadline === undefined) {
    startParentWatchdog();
  } else {
    const deadline = shareDeadline(message.deadline);
    await startDeadlineWatchdog(deadline);
    startFence(deadline);
  }
  if (!message.worker) {
    process.permission.drop("worker");
  }
  assertLinksStayInside(message.userDir);

  // Not in its environment from the start: Node would load modules from there.
  process.env["HOME"] ??= message.userDir;
  loadModulesFrom(message.modulesDir);
  const settings = createSettings(message, storage.module, log.handle);
  util.init(settings);
  runtime.init(settings, server);
  networkGuard.enforce(createNetworkPolicy(message.network));

  // The runtime would overwrite an earlier deployment with its initial load.
  const loaded = nextEvent(isStartResult);
  await runtime.start();
  await loaded;
  log.enable();
}

/** The node types that the runtime can create; none if they are too many for a message. */
async function readNodeTypes(): Promise<Pick<Ready, "nodeTypes">> {
  const sets = await runtime.nodes.getNodeList({});
  const nodeTypes = sets.filter(({ enabled, err }) => enabled && err === undefined).flatMap(({ types }) => types);
  const isShort = nodeTypes.length <= maxNodeTypes && JSON.stringify(nodeTypes).length <= maxNodeTypesChars;
  return isShort ? { nodeTypes } : {};
}

/** Resolves with a function that closes the port of HTTP-in nodes. Does not resolve if it can't be opened: the process exits. */
async function openPort({ host, httpPort }: Listen): Promise<() => void> {
  try {
    const ipv6 = await listen(server, host, httpPort);
    ipv6?.on("connection", (socket) => server.emit("connection", socket));
    return () => {
      server.close();
      ipv6?.close();
      server.closeAllConnections();
    };
  } catch (error) {
    const { address = host, code, message } = error as NodeJS.ErrnoException & { address?: string };
    exitAfter({ kind: "listen-failed", address, code: code ?? message });
    return await new Promise(() => {});
  }
}

async function deploy(message: Deploy, nodes: FlowNode[]): Promise<Omit<Deployed, "kind" | "id">> {
  const credentials = toCredentialsObject(message.credentials, message.credentialsChanged, nodes);
  let failure: string | undefined;
  let missingTypes: readonly string[] | undefined;
  let lacksModules: true | undefined;
  // The runtime emits `runtime-deploy` once per deployment, when all nodes are started or the start has failed.
  const finished = nextEvent((event) => {
    if (event.id === "runtime-state" && event.payload?.error !== undefined) {
      failure = describeFailure(event);
      missingTypes = event.payload.types;
      if (event.payload.error === "missing-modules") {
        lacksModules = true;
      }
    }
    return event.id === "runtime-deploy";
  });
  tabFailures.onFailure((stack) => {
    failure ??= stack.split("\n", 1)[0];
  });
  onStart = () => {
    const others = new Set(nodes.map(({ id }) => id).filter(isRunning));
    isStarting = (id) => !others.has(id);
    for (const id of failedNodes.keys()) {
      if (!isRunning(id)) {
        failedNodes.delete(id);
      }
    }
  };
  storage.set(nodes, credentials);
  try {
    const { rev } = await runtime.flows.setFlows(
      message.type === "reload"
        ? { deploymentType: "reload" }
        : { flows: { flows: markChangedCredentials(nodes, message), credentials }, deploymentType: message.type },
    );
    if (rev === undefined) {
      return { failure: "the runtime could not stop the flows that ran before" };
    }
  } catch (error) {
    return { failure: error instanceof Error ? error.message : String(error), rejected: true };
  }
  await finished;
  isStarting = () => false;
  return {
    ...(failure !== undefined && { failure }),
    ...(missingTypes !== undefined && { missingTypes }),
    ...(lacksModules !== undefined && { lacksModules }),
    ...(failedNodes.size > 0 && { failedNodes: [...failedNodes.values()].slice(0, maxFailedNodes) }),
  };
}

const maxFailedNodes = 10;

/** Whether the deployment in progress does not restart a node, if this is called when it starts others. */
function isRunning(id: string): boolean {
  return getNode(id) !== null;
}

function describeNode({ nodeId = "", nodeType = "node", nodeName }: LogEntry): string {
  return nodeName === undefined ? `${nodeType} ${nodeId}` : `${nodeType} ${JSON.stringify(nodeName)} (${nodeId})`;
}

async function stop(): Promise<void> {
  closePort?.();
  if (closePort !== undefined) {
    await runtime.stop();
  }
  process.exit(0);
}

function describe(error: unknown): string {
  return error instanceof Error ? (error.stack ?? error.message) : String(error);
}
