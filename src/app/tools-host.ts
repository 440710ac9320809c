import type { IncomingMessage } from "node:http";
import { ConnectError, type HandlerContext } from "@connectrpc/connect";
import { FlowgateError } from "@flowgate/flows/errors";
import { createNodeHandler } from "@flowgate/gateway/node";
import { type Host, type RevisionUrl, withoutMarkup } from "@flowgate/node-red";
import { clientKeyOf } from "../auth/caller.ts";
import { createGate } from "../auth/gate.ts";
import { OpenCalls } from "../auth/open-calls.ts";
import { ToolAuthenticator } from "../auth/tool-authenticator.ts";
import {
  callerHeaders,
  describeWritableModules,
  type Procedure,
  readDiagnostics,
  readEditorContext,
  readEditorSettings,
  readNodeCredentials,
} from "@flowgate/runtime";
import { listLoadedModules } from "@flowgate/runtime/modules";
import type { Options } from "../options/parse.ts";
import type { MemoryBudget } from "../server/memory/memory-budget.ts";
import type { ServerOptions } from "../server/server-options.ts";
import { forwardingHeaders } from "../server/pipeline/client.ts";
import { createErrorLog, internalMessage, toConnectError, toFailure } from "../server/pipeline/errors.ts";
import { gatewayOptions } from "../server/pipeline/gateway-options.ts";
import { createUpgradeCheck, type OwnHosts } from "../server/tools/access.ts";
import { createRequestLimits } from "../server/tools/request-limits.ts";
import { accessRules, createRoutes } from "../services/api.ts";
import { authService } from "../services/auth.ts";
import { eventsService } from "../services/events.ts";
import { libraryReader } from "../services/library.ts";
import { assertRunner, callRunner } from "../services/runner.ts";
import type { DocumentStore } from "../store/document-store.ts";
import { silentObserver } from "../telemetry/observer.ts";
import { InProcessApi } from "./in-process-api.ts";
import type { Live } from "./events.ts";
import type { Foundation } from "./foundation.ts";
import type { Services } from "./open-services.ts";
import { type Runtimes, disabledOf, moduleListsOf, modulesDirOf } from "./runtimes.ts";
import { ToolCallers } from "./tool-callers.ts";

export type ToolsHostOptions = Pick<Foundation, "options" | "store" | "ports" | "log"> &
  Pick<Runtimes, "runtime"> &
  Pick<Services, "authenticator" | "editorSignIn" | "audit" | "implementations"> & {
    readonly serverOptions: ServerOptions;
    /** The budget that request bodies of all listeners share. */
    readonly memory: MemoryBudget | undefined;
    readonly live: Pick<Live, "redaction" | "hub" | "journal" | "join">;
    readonly shutdownSignal: AbortSignal;
    readonly ownHosts: OwnHosts;
    readonly requestIdOf: (headers: IncomingMessage["headers"]) => string;
  };

/** Creates what Node-RED's admin API needs of this service. */
export function createToolsHost(allOptions: ToolsHostOptions, stack: AsyncDisposableStack): Host {
  const { options, authenticator, audit, store, runtime, live, log, memory, requestIdOf } = allOptions;
  const { interceptors, deferred, observer = silentObserver } = allOptions.serverOptions;
  const { limits } = options;
  const tools = new ToolAuthenticator(authenticator, { isReadOnly: options.nodeRed.editor === "read-only" });
  const openCalls = stack.use(new OpenCalls({ authenticator: tools, tokens: store.tokens }));
  const gate = createGate(tools, accessRules, audit);
  // The API's own services for authentication and events accept other tokens.
  const auth = authService(tools);
  const events = eventsService({ ...live, audit, calls: openCalls });
  const routes = createRoutes({ ...allOptions.implementations, auth, events });
  const toError = (error: unknown, context: HandlerContext): ConnectError => toFailure(error, log, context);
  const api = new InProcessApi({ routes, gate, toError });
  const limit = createRequestLimits({ memory, observer });
  const callers = new ToolCallers({ tools, openCalls, audit, api, limit, signIn: allOptions.editorSignIn });
  // Of its paths, those that Node-RED has too are routed to it.
  const handle = createNodeHandler({
    ...gatewayOptions,
    protocols: ["rest"],
    routes,
    contextValues: (request) => callers.valuesOf(request),
    requestGate: gate,
    interceptors,
    ...(deferred !== undefined && { deferred: [...deferred] }),
    mapError: (error, context) => withoutMarkupOf(toError(error, context)),
    onError: createErrorLog(log),
    readMaxBytes: limits.bodyBytes,
    maxTimeoutMs: limits.deadlineMs,
    shutdownSignal: allOptions.shutdownSignal,
  });
  const refusalOf = createUpgradeCheck(allOptions.ownHosts, options.trustedProxies);
  const revisionUrlOf = findRevisionUrl(allOptions);
  const hasOthers = store.cluster !== undefined && options.runtime.mode === "each";
  return {
    admit: (request, reply, access) => callers.admit(request, reply, access),
    admitSocket(request) {
      const address = request.socket.remoteAddress ?? "";
      const client = { address, requestId: requestIdOf(request.headers) };
      return (
        refusalOf(request) ?? {
          source: clientKeyOf(address),
          revisionUrl: revisionUrlOf(request),
          authenticate: (authorization) => callers.authenticate(client, authorization),
        }
      );
    },
    serveApi: ({ raw }, reply) => handle(raw, reply.raw),
    toConnectError(error, { id }) {
      if (error instanceof ConnectError) {
        return error;
      }
      if (error instanceof FlowgateError) {
        return toConnectError(error);
      }
      log.error({ requestId: id, err: error }, "a request of Node-RED's admin API failed unexpectedly");
      return toConnectError(new FlowgateError("internal", internalMessage(id)));
    },
    modules: listLoadedModules({
      version: runtime.status().version,
      modulesDir: loadedModulesDir(options),
      lists: moduleListsOf(options),
      disabled: disabledOf(options),
    }),
    isShown: ({ kind, runtime: source }) => !hasOthers || kind.case === "deployment" || source === live.hub.runtime,
    runtime: createFlowRuntime(allOptions),
    library: libraryReader(store.documents),
    userSettings: createUserSettings(store.documents),
    signIn: allOptions.editorSignIn,
  };
}

/** The same error with a message that the editor can show. */
function withoutMarkupOf({ rawMessage, code, metadata, details, cause }: ConnectError): ConnectError {
  const error = new ConnectError(withoutMarkup(rawMessage), code, metadata, undefined, cause);
  error.details = details;
  return error;
}

function createUserSettings(documents: DocumentStore): Host["userSettings"] {
  const nameOf = (username: string | undefined) => (username === undefined ? "settings" : `settings/${username}`);
  return {
    read: async (username) => (await documents.find(nameOf(username)))?.content,
    write: (username, content) => documents.put({ name: nameOf(username), details: "{}", content, by: username }),
  };
}

function createFlowRuntime({ runtime, store, live }: ToolsHostOptions): Host["runtime"] {
  const { cluster, desired } = store;
  const runner = { runtime, cluster, desired };
  const call = async <Argument, Result>(
    procedure: Procedure<Argument, Result>,
    argument: Argument,
    signal: AbortSignal,
  ): Promise<Result> => (await callRunner(runner, procedure, argument, { timeoutMs: () => undefined, signal })).result;
  return {
    isStarted: () => desired.current().isStarted,
    settings: (signal) => runtime.call(readEditorSettings, {}, { signal }),
    diagnostics: (signal) => call(readDiagnostics, {}, signal),
    credentials: (node, signal) => call(readNodeCredentials, node, signal),
    async context(place, signal) {
      // The runtime would create the context of any id.
      if (place.scope === "flow" && !store.flows.active().flows.nodes.some(({ id }) => id === place.id)) {
        return {};
      }
      const found = await call(readEditorContext, place, signal);
      return "missing" in found ? undefined : found.result;
    },
    connect({ username, permissions }) {
      assertRunner(runner);
      return {
        connection: runtime.connectAdmin(),
        headers: {
          ...(username !== undefined && { [callerHeaders.name]: encodeURIComponent(username) }),
          // Those on tabs are not enough for routes of nodes.
          [callerHeaders.permissions]: permissions.filter((permission) => !permission.includes("@")).join(" "),
        },
      };
    },
    redact: (text) => live.redaction.redact(text, false),
  };
}

/** The folder of added modules, if the flow runtime loads them. */
function loadedModulesDir(options: Options): string | undefined {
  const dir = modulesDirOf(options);
  const { runtime } = options;
  const isWritable = dir !== undefined && describeWritableModules(dir, [runtime.dir, ...runtime.allow.fileSystemWrite]);
  return isWritable === undefined ? dir : undefined;
}

/**
 * Returns a function that finds the console as a browser does: at the configured URL, or else at the host by which it has reached the editor.
 * Behind a proxy, neither Host nor the port tells where browsers reach the API.
 */
function findRevisionUrl({
  options: { console, adminAuth, tls },
  ports,
}: ToolsHostOptions): (request: IncomingMessage) => RevisionUrl | undefined {
  const apiPort = ports.of("api");
  if (!console || apiPort === undefined) {
    return () => undefined;
  }
  return ({ headers }) => {
    const isForwarded = forwardingHeaders.some((name) => headers[name] !== undefined);
    const own = isForwarded ? null : URL.parse(`${tls === undefined ? "http" : "https"}://${headers.host}`);
    if (own !== null) {
      own.port = String(apiPort);
    }
    const base = adminAuth?.signIn?.url ?? own ?? undefined;
    return base === undefined ? undefined : (rev) => new URL(`/console/history/${encodeURIComponent(rev)}`, base).href;
  };
}
