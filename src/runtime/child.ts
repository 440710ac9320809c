// The program of the child process, and the only file that loads the flow runtime.
import { createServer, type Server } from "node:http";
import { createRequire } from "node:module";
import { dirname } from "node:path";
import type { AddressInfo } from "node:net";
import type flowRuntime from "@node-red/runtime";
import type flowUtil from "@node-red/util";
import type { RuntimeEvent } from "@node-red/util";
import type { FlowNode } from "../flows/configuration.ts";
import { type CredentialObject, credentialObject, markedFlows } from "./child-deployment.ts";
import { createRuntimeLog } from "./child-log.ts";
import { maxLineChars } from "./log-budget.ts";
import { hardenSandbox } from "./sandbox-hardening.ts";
import {
  type Boot,
  type Deploy,
  type Deployed,
  type FromChild,
  type ToChild,
  heartbeatIntervalMs,
} from "./messages.ts";
import { startParentWatchdog } from "./parent-watchdog.ts";
import { openParentChannel } from "./parent-channel.ts";
import { avoidDeepFlowCopy } from "./shallow-flow-copy.ts";

hardenSandbox();

const parent = openParentChannel({
  message: (message, payload) => void obey(message, payload),
  ended: () => process.kill(-process.pid, "SIGKILL"),
});

function leave(word: FromChild): void {
  const exit = () => process.exit(1);
  parent.send(word, exit);
  setTimeout(exit, 500);
}

function die(cause: string): void {
  leave({ kind: "dying", cause: cause.slice(0, maxLineChars) });
}

// The state of a process in which these two happened is unknown.
process.on("uncaughtException", (error) => die(describe(error)));
process.on("unhandledRejection", (reason) => die(describe(reason)));
// From a terminal or a service manager they reach the parent too, which stops this process in good order.
process.on("SIGINT", () => {});
process.on("SIGTERM", () => {});

setInterval(() => parent.send({ kind: "beat" }), heartbeatIntervalMs);
parent.send({ kind: "beat" });

avoidDeepFlowCopy((message) => parent.send({ kind: "log", entry: { level: "warn", message } }));
// Not imports, which would run before what stands above.
const require = createRequire(import.meta.url);
const util = require("@node-red/util") as typeof flowUtil;
const runtime = require("@node-red/runtime") as typeof flowRuntime;

/** Of the deployment that is being started. */
let traceparent: string | undefined;

const log = createRuntimeLog(
  (entry) => parent.send({ kind: "log", entry: traceparent === undefined ? entry : { ...entry, traceparent } }),
  ({ level, message }) => {
    // They are encrypted at rest, by the parent: this warning would be false.
    if (message === util.log._("nodes.credentials.unencrypted")) return undefined;
    // That flows start and stop: the parent tells what has become of a deployment.
    return level === "info" ? "debug" : level;
  },
);

/** What the runtime reads on `reload`; it starts without flows and gets them by the first deployment. */
const stored: { flows: object[]; credentials: CredentialObject } = { flows: [], credentials: {} };

// A plain object: the runtime tests for own properties.
const storageModule = {
  init: async () => {},
  getFlows: async () => stored.flows,
  saveFlows: async () => {},
  getCredentials: async () => stored.credentials,
  saveCredentials: async () => {},
  getSettings: async () => ({}),
  saveSettings: async () => {},
  getSessions: async () => ({}),
  saveSessions: async () => {},
  getLibraryEntry: async () => [],
  saveLibraryEntry: async () => {},
};

function settingsFor(boot: Boot) {
  return {
    userDir: boot.userDir,
    coreNodesDir: dirname(require.resolve("@node-red/nodes")),
    storageModule,
    // The service encrypts them at rest, in the parent.
    credentialSecret: false,
    httpAdminRoot: false,
    disableEditor: true,
    httpNodeRoot: "/",
    telemetry: { enabled: false },
    externalModules: {
      autoInstall: false,
      palette: { allowInstall: false, allowUpload: false },
      modules: { allowInstall: false },
    },
    functionExternalModules: false,
    nodeCloseTimeout: boot.nodeCloseTimeoutMs,
    runtimeState: { enabled: true },
    logging: {
      parent: { level: boot.logLevel, audit: false, metrics: false, handler: () => log.handle },
    },
  };
}

async function boot(message: Boot): Promise<Server> {
  startParentWatchdog();
  if (!message.worker) process.permission.drop("worker");

  // Not below an Express app of ours: the HTTP-in node reorders the root app's routes, and works on
  // the runtime's own version of Express only. Its httpAdmin stays unmounted: headless, it has no
  // authentication at all.
  const server = createServer((request, response) => runtime.httpNode(request, response));
  const settings = settingsFor(message);
  util.init(settings);
  runtime.init(settings, server);
  await listen(server, message);

  // A deployment that comes before this event would be overwritten by the runtime's own first load.
  const loaded = nextEvent((event) => event.id === "runtime-state" && hasOutcome(event));
  await runtime.start();
  await loaded;
  log.open();
  parent.send({ kind: "booted", httpPort: (server.address() as AddressInfo).port });
  return server;
}

/** Where it can't, this process ends, and the promise never. */
async function listen(server: Server, { host, httpPort }: Boot): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  const refused = (error: NodeJS.ErrnoException) => leave({ kind: "unbound", code: error.code ?? error.message });
  server.once("error", refused);
  server.listen(httpPort, host, resolve);
  await promise;
  server.off("error", refused);
}

async function deploy(message: Deploy, given: FlowNode[]): Promise<Omit<Deployed, "kind" | "id">> {
  const credentials = credentialObject(message.credentials, message.credentialsChanged);
  const flows = markedFlows(given, message);
  let failure: string | undefined;
  let missingTypes: readonly string[] | undefined;
  // The runtime emits it once for each deployment, when all is started or nothing can be.
  const finished = nextEvent((event) => {
    if (event.id === "runtime-state" && event.payload?.error !== undefined) {
      failure = describeEvent(event);
      missingTypes = event.payload.types;
    }
    return event.id === "runtime-deploy";
  });
  onTabFailure = (stack) => {
    failure ??= stack.split("\n", 1)[0];
  };
  stored.flows = given;
  stored.credentials = credentials;
  try {
    const { rev } = await runtime.flows.setFlows(
      message.type === "reload"
        ? { deploymentType: "reload" }
        : { flows: { flows, credentials }, deploymentType: message.type },
    );
    if (rev === undefined) return { failure: "the runtime could not stop the flows that ran before" };
  } catch (error) {
    return { failure: error instanceof Error ? error.message : String(error), rejected: true };
  }
  await finished;
  return { ...(failure !== undefined && { failure }), ...(missingTypes !== undefined && { missingTypes }) };
}

/** Called with the stack of the error where the runtime could not start a tab and all that is on it. */
let onTabFailure: ((stack: string) => void) | undefined;

// The runtime goes on and tells of it by this line alone.
const print = console.log; // oxlint-disable-line no-console
// oxlint-disable-next-line no-console
console.log = (...values: unknown[]) => {
  const [text] = values;
  if (typeof text === "string" && /^\s+at start \(.*runtime.lib.flows.index\.js/m.test(text)) onTabFailure?.(text);
  print(...values);
};

const listeners = new Set<(event: RuntimeEvent) => void>();
util.events.on("runtime-event", (event) => {
  for (const listener of listeners) listener(event);
});

async function nextEvent(isIt: (event: RuntimeEvent) => boolean): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  const listener = (event: RuntimeEvent) => {
    if (!isIt(event)) return;
    listeners.delete(listener);
    resolve();
  };
  listeners.add(listener);
  await promise;
}

function hasOutcome({ payload }: RuntimeEvent): boolean {
  return payload?.state === "start" || payload?.error !== undefined;
}

function describeEvent({ payload }: RuntimeEvent): string {
  switch (payload?.error) {
    case "missing-types":
      return `missing node types: ${payload.types?.join(", ")}`;
    case "missing-modules":
      return `missing modules: ${payload.modules?.map(({ module }) => module).join(", ")}`;
    default:
      return String(payload?.error);
  }
}

function describe(error: unknown): string {
  return error instanceof Error ? (error.stack ?? error.message) : String(error);
}

let server: Server | undefined;

async function stop(): Promise<void> {
  server?.close();
  server?.closeAllConnections();
  if (server !== undefined) await runtime.stop();
  process.exit(0);
}

async function obey(message: ToChild, payload: Buffer): Promise<void> {
  switch (message.kind) {
    case "boot":
      server = await boot(message);
      return;
    case "deploy": {
      parent.send({ kind: "begun", id: message.id });
      traceparent = message.traceparent;
      const outcome = await deploy(message, JSON.parse(payload.toString()) as FlowNode[]);
      traceparent = undefined;
      parent.send({ kind: "deployed", id: message.id, ...outcome });
      return;
    }
    case "stop":
      await stop();
  }
}
