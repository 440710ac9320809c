// Entry point of the child process.
import { getCompileCacheDir } from "node:module";
import { parseJsonText } from "@flowgate/gateway/json-text";
import type { FlowNode } from "@flowgate/flows";
import { replyPartBytes } from "../calls.ts";
import { openParentChannel } from "../channel.ts";
import type { Fault } from "../fault.ts";
import {
  type Deploy,
  type FromChild,
  type Initialize,
  type Listen,
  type LoadModules,
  type Ready,
  type StoredSettings,
  type ToChild,
  heartbeatIntervalMs,
  maxNodeTypes,
  maxNodeTypesChars,
} from "../messages.ts";
import type { Measurements } from "../measurements.ts";
import { createNetworkPolicy } from "../network-policy.ts";
import { isNodeError } from "../node-events.ts";
import { maxLineChars } from "../output.ts";
import { Activity } from "./activity.ts";
import { adminApi, serveAdminApp } from "./admin-server.ts";
import { createCallServer } from "./call-server.ts";
import { contextHandlers } from "./context.ts";
import { ContextStores } from "./context-stores.ts";
import { editorHandlers } from "./editor.ts";
import { describeError, functionOf } from "./error-text.ts";
import { FlowDeployer } from "./flow-deployer.ts";
import { FlowPort } from "./flow-port.ts";
import { FlowMeter } from "./flow-meter.ts";
import { FlowTracer } from "./flow-tracer.ts";
import { injectHandlers } from "./inject.ts";
import { createRuntimeLog } from "./log.ts";
import { ModuleLoader } from "./module-loader.ts";
import { createNetworkGuard } from "./network-guard.ts";
import { NodeCapture } from "./node-capture.ts";
import { NodeLocator } from "./node-locator.ts";
import { createSettings, loadModulesFrom, loadNodeRed } from "./node-red.ts";
import { NodeWrites } from "./node-writes.ts";
import { assertLinksStayInside, hardenSandbox } from "./sandbox-hardening.ts";
import { shareDeadline, startDeadlineWatchdog, startFence, startParentWatchdog } from "./watchdog.ts";

hardenSandbox();

const parent = openParentChannel({
  onMessage: (message, payload) => void handleMessage(message, payload),
  onClose: () => process.kill(0, "SIGKILL"),
});

// The state of the process is undefined after either of these.
process.on("uncaughtException", crash);
process.on("unhandledRejection", crash);
// The parent gets these signals of a terminal or service manager too, and stops this process gracefully.
process.on("SIGINT", () => {});
process.on("SIGTERM", () => {});

const networkGuard = createNetworkGuard(warn);

const activity = new Activity();

setInterval(() => {
  activity.tick();
  parent.send({ kind: "heartbeat" });
}, heartbeatIntervalMs);
parent.send({ kind: "heartbeat" });

// Processes that flows start have other code.
delete process.env["NODE_COMPILE_CACHE"];
delete process.env["NODE_COMPILE_CACHE_READONLY"];
const cacheDir = getCompileCacheDir();
/** True if this process fills the compile cache, see ../compile-cache.ts: it loads all that others may load, and gets no flows. */
const fillsCache = cacheDir !== undefined && process.permission.has("fs.write", cacheDir);
const writes = new NodeWrites({ send: (text) => void sendParts("node-write", text) });
const nodeRed = loadNodeRed({ defersSets: !fillsCache, followWrites: (...modules) => writes.follow(...modules), warn });
const { util, runtime } = nodeRed;
const deployer = new FlowDeployer(nodeRed, writes, (id) => capture.end(id));
const locator = new NodeLocator();
const stores = new ContextStores({
  modules: nodeRed.contextModules,
  unconfigured: nodeRed.memoryContext,
  rootOf: (expression) => String(util.util.normalisePropertyExpression(expression)[0]),
  send: (changes) => sendParts("context", changes),
  warn,
});
const handlers = new Map([
  ...injectHandlers(nodeRed),
  ...contextHandlers({ ...nodeRed, stores }),
  ...editorHandlers(nodeRed),
]);
const serveCall = createCallServer(handlers, (reply) => parent.send(reply));
const capture = new NodeCapture({ nodeRed, locator, activity, parent });
const log = createRuntimeLog(
  (entry) => {
    const annotated = deployer.annotate(entry);
    if (!isNodeError(entry)) {
      capture.beforeLog();
    }
    const node = entry.nodeId === undefined ? {} : locator.locate(entry.nodeId);
    parent.send({ kind: "log", entry: { ...annotated, ...node } });
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
let initialized: Promise<FlowPort> | undefined;
let openedPort: FlowPort | undefined;
let moduleLoader: ModuleLoader | undefined;
/** The settings that nodes read as `RED.settings`. */
let settings: { uiPort?: unknown } = {};

async function handleMessage(message: ToChild, payload: Buffer): Promise<void> {
  switch (message.kind) {
    case "initialize":
      initialized = initialize(message, payload);
      await initialized;
      return;
    case "listen":
      await openPort(message, payload);
      return;
    case "certificate":
      openedPort?.replaceCertificate(message.certificate);
      return;
    case "deploy":
      await deploy(message, payload);
      return;
    case "load-modules":
      await loadModules(message);
      return;
    case "call":
      await serveCall(message, payload);
      return;
    case "protect-port":
      networkGuard.protectPort(message.port);
      return;
    case "node-written":
      writes.handleReply(message.id, message.problem);
      return;
    case "report-debug":
      capture.setDebug(message.isWanted);
      return;
    case "serve-admin":
      // Where requests come from, of which only the service knows.
      runtime.httpAdmin.set("trust proxy", true);
      serveAdminApp((request, response, next) => runtime.httpAdmin(request, response, next), nodeRed);
      return;
    case "stop":
      await stop();
  }
}

/** Sends a text in parts, since lines of the channel are short. Resolves when they are written. */
function sendParts(kind: "context" | "node-write", text: string): Promise<void> {
  const bytes = Buffer.from(text);
  return new Promise((resolve) => {
    for (let start = 0; start < bytes.length; start += replyPartBytes) {
      const part = bytes.toString("base64", start, start + replyPartBytes);
      const isLast = start + replyPartBytes >= bytes.length;
      parent.send({ kind, part, isLast }, isLast ? resolve : undefined);
    }
  });
}

/** Starts the runtime without flows. */
async function initialize(message: Initialize, stored: Buffer): Promise<FlowPort> {
  // The parent was killed before its death could be signalled to this process.
  if (message.parentPid !== undefined && process.ppid !== message.parentPid) {
    process.kill(0, "SIGKILL");
  }
  if (message.deadline === undefined) {
    await startParentWatchdog(activity.shared);
  } else {
    const deadline = shareDeadline(message.deadline);
    await startDeadlineWatchdog(activity.shared, deadline);
    startFence(deadline);
  }
  if (!message.worker) {
    // The watchdog has used both.
    process.permission.drop("worker");
    process.permission.drop("inspector");
  }
  assertLinksStayInside(message.userDir);

  // Not in its environment from the start: Node would load modules from there.
  process.env["HOME"] ??= message.userDir;
  const permitModules = loadModulesFrom(message);
  deployer.configure(parseSettings(stored), message.disabledSets ?? []);
  settings = createSettings(message, {
    storageModule: deployer.storageModule,
    logHandler: log.handle,
    contextStorage: stores.configure(message.settings.contextStorage),
  });
  const { http, nodeSettings } = message.settings;
  const expressSettings = Object(nodeSettings["httpServerOptions"]) as Record<string, unknown>;
  const port = new FlowPort({ nodeRed, http, expressSettings });
  const { server } = port;
  util.init(settings);
  runtime.init(settings, server, message.hasAdmin === true ? adminApi : undefined);
  port.mount();
  capture.start(warn);
  if (message.measures !== undefined) {
    const report = (measurements: Measurements): void => parent.send(measurements);
    new FlowMeter({ nodeRed, locator, server, byNode: message.measures === "nodes", report }).start(warn);
  }
  if (message.traceRatio !== undefined) {
    new FlowTracer({ nodeRed, locator, server, ratio: message.traceRatio, parent }).start(warn);
  }
  networkGuard.enforce(createNetworkPolicy(message.network));
  await deployer.start();
  if (http.cors !== undefined) {
    // Its set answers the preflight requests of all nodes.
    await nodeRed.loadTypes(["http in"]);
  }
  moduleLoader = new ModuleLoader(
    { ...nodeRed, permitModules },
    message.functionLists ?? { allow: ["*"], deny: [] },
    warn,
  );
  log.enable();
  return port;
}

function parseSettings(payload: Buffer): StoredSettings {
  return payload.length === 0 ? [] : (JSON.parse(payload.toString()) as StoredSettings);
}

/** Opens the port of HTTP-in nodes. If that is not possible, the process exits. */
async function openPort(message: Listen, values: Buffer): Promise<void> {
  const port = await initialized;
  if (port === undefined) {
    return;
  }
  writes.replaceSettings(message.settings ?? []);
  await stores.open(values);
  let httpPort: number;
  try {
    httpPort = await port.open(message);
    openedPort = port;
  } catch (error) {
    const { address = message.host, code, message: reason } = error as NodeJS.ErrnoException & { address?: string };
    exitAfter({ kind: "listen-failed", address, code: code ?? reason });
    return;
  }
  // A free port was selected.
  settings.uiPort ||= httpPort;
  parent.send({ kind: "ready", httpPort, ...(await readNodeTypes()) });
}

/** The node types that the runtime can create; none if they are too many for a message. */
async function readNodeTypes(): Promise<Pick<Ready, "nodeTypes">> {
  const sets = await runtime.nodes.getNodeList({});
  const nodeTypes = sets.filter(({ enabled, err }) => enabled && err === undefined).flatMap(({ types }) => types);
  const isShort = nodeTypes.length <= maxNodeTypes && JSON.stringify(nodeTypes).length <= maxNodeTypesChars;
  return isShort ? { nodeTypes } : {};
}

async function loadModules(message: LoadModules): Promise<void> {
  const isDone = (await moduleLoader?.load(message)) === true;
  parent.send({ kind: "modules-loaded", ...(!isDone && { isRefused: true }), ...(await readNodeTypes()) });
}

async function deploy(message: Deploy, payload: Buffer): Promise<void> {
  parent.send({ kind: "deploy-started", id: message.id });
  capture.beginDeployment(message.reportsStops);
  const nodes = parseJsonText(payload.toString()) as FlowNode[];
  await nodeRed.loadTypes(nodes.map(({ type }) => type));
  locator.replace(nodes);
  activity.replace(nodes, locator);
  const result = await deployer.deploy(message, nodes);
  if (result.rejected === true) {
    locator.revert();
  }
  // Errors that are reported after this one are those of the new flows.
  capture.flush(true);
  parent.send({ kind: "deployed", id: message.id, ...result });
}

async function stop(): Promise<void> {
  openedPort?.close();
  if (openedPort !== undefined) {
    await runtime.stop();
    await writes.settle();
  }
  process.exit(0);
}

function warn(message: string): void {
  parent.send({ kind: "log", entry: { level: "warn", message } });
}

function crash(error: unknown): void {
  capture.flush();
  const cause = error instanceof Error ? (error.stack ?? error.message) : String(error);
  const fault = findFault(error);
  exitAfter({ kind: "crashed", cause: cause.slice(0, maxLineChars), ...(fault !== undefined && { fault }) });
}

/** The function node that has thrown an error, or the node that was active. */
function findFault(error: unknown): Fault | undefined {
  const id = functionOf(error);
  if (id !== undefined) {
    const { line, column } = describeError(error);
    return { node: locator.locate(id), line, column, isCertain: true };
  }
  const last = activity.last();
  return last === undefined ? undefined : { node: locator.locate(last), isCertain: false };
}

function exitAfter(message: FromChild): void {
  const exit = () => process.exit(1);
  parent.send(message, exit);
  setTimeout(exit, 500);
}
