import type { IncomingMessage } from "node:http";
import { ConnectError } from "@connectrpc/connect";
import type { Logger } from "pino";
import type { AuditRecorder } from "../auth/audit-recorder.ts";
import type { Authenticator } from "../auth/authenticator.ts";
import type { EditorSignIn } from "../auth/editor-sign-in.ts";
import { createGate } from "../auth/gate.ts";
import { ToolAuthenticator } from "../auth/tool-authenticator.ts";
import type { RevisionUrl } from "../../packages/node-red/src/comms/messages.ts";
import type { NodeRedListener } from "../server/tools/listener.ts";
import type { Options } from "../options/parse.ts";
import type { Runtime } from "../runtime/runtime.ts";
import type { MemoryBudget } from "../server/memory/memory-budget.ts";
import type { ServerOptions } from "../server/open-server.ts";
import { forwardingHeaders } from "../server/pipeline/client.ts";
import { createErrorLog, toFailure } from "../server/pipeline/errors.ts";
import { gatewayOptions } from "../server/pipeline/gateway-options.ts";
import { accessRules } from "../services/api.ts";
import type { Store } from "../store/store.ts";
import { silentObserver } from "../telemetry/observer.ts";
import type { Live } from "./live.ts";

export type NodeRedOptions = {
  readonly options: Options;
  readonly serverOptions: ServerOptions;
  /** Undefined: the API is not served. */
  readonly apiPort: number | undefined;
  /** The budget that request bodies of all listeners share. */
  readonly memory: MemoryBudget | undefined;
  readonly authenticator: Authenticator;
  readonly editorSignIn: EditorSignIn | undefined;
  readonly audit: AuditRecorder;
  readonly store: Store;
  readonly runtime: Runtime;
  readonly live: Pick<Live, "redaction" | "hub" | "join">;
  readonly log: Logger;
  readonly shutdownSignal: AbortSignal;
};

/** Opens the listener of Node-RED's tools if its port is configured. Its code is loaded only then. */
export async function openNodeRed(
  {
    options,
    serverOptions,
    apiPort,
    memory,
    authenticator,
    editorSignIn: signIn,
    audit,
    store,
    runtime,
    live,
    log,
    shutdownSignal,
  }: NodeRedOptions,
  stack: AsyncDisposableStack,
): Promise<NodeRedListener | undefined> {
  const { port } = options.nodeRed;
  if (port === undefined) {
    return undefined;
  }
  const [{ openNodeRedListener }, { ServiceCalls }, { openEditor }, { withoutMarkup }] = await Promise.all([
    import("../server/tools/listener.ts"),
    import("./service-calls.ts"),
    import("./editor.ts"),
    import("../../packages/node-red/src/errors.ts"),
  ]);
  const { host, hosts, trustedProxies, limits, modules, drain } = options;
  const { routes, interceptors, deferred, tls, observer = silentObserver } = serverOptions;
  const tools = new ToolAuthenticator(authenticator, { isReadOnly: options.nodeRed.editor === "read-only" });
  const gate = createGate(tools, accessRules, audit);
  const editor = await openEditor({ options, version: runtime.status().version, live, store, tools, audit }, stack);
  const comms = { ...editor.comms, revisionUrlOf: findRevisionUrl(options, apiPort) };
  return stack.use(
    await openNodeRedListener({
      ...editor,
      comms,
      host,
      port,
      hosts: signIn === undefined ? hosts : [...hosts, new URL(signIn.url).hostname],
      tls,
      trustedProxies,
      limits,
      memory,
      observer,
      log,
      audit,
      openCalls: editor.comms.calls,
      authenticator: tools,
      signIn,
      store: store.flows,
      documents: store.documents,
      httpNodeRoot: options.runtime.http.root,
      runtime,
      runner: { runtime, cluster: store.cluster, desired: store.desired },
      redact: live.redaction.redact,
      tarballBytes: limits.bodyBytes,
      calls: new ServiceCalls(routes, gate),
      gateway: {
        ...gatewayOptions,
        requestGate: gate,
        interceptors,
        ...(deferred !== undefined && { deferred: [...deferred] }),
        mapError: (error, context) => withPlainMessage(toFailure(error, log, context), withoutMarkup),
        onError: createErrorLog(log),
        readMaxBytes: limits.bodyBytes,
        maxTimeoutMs: limits.deadlineMs,
        shutdownSignal,
      },
      responseTimeoutMs: Math.max(limits.requestTimeoutMs, modules.timeoutMs) + 60_000,
      closeGraceMs: drain.graceMs,
    }),
  );
}

/**
 * Returns a function that finds the console as a browser does: at the configured URL, or else at the host by which it has reached the editor.
 * Behind a proxy, neither Host nor the port tells where browsers reach the API.
 */
function findRevisionUrl(
  { console, adminAuth, tls }: Options,
  apiPort: number | undefined,
): ((request: IncomingMessage) => RevisionUrl | undefined) | undefined {
  if (!console || apiPort === undefined) {
    return undefined;
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

/** The same error with another message. */
function withPlainMessage(failure: ConnectError, toPlain: (message: string) => string): ConnectError {
  const { rawMessage, code, metadata, details, cause } = failure;
  const plain = new ConnectError(toPlain(rawMessage), code, metadata, undefined, cause);
  plain.details = details;
  return plain;
}
