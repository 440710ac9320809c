import { join } from "node:path";
import { resolvePackage } from "@flowgate/base/resolve-package";
import { serveNodeRed } from "@flowgate/node-red";
import type { Logger } from "pino";
import type { AuditRecorder } from "../auth/audit-recorder.ts";
import type { Authenticator } from "../auth/authenticator.ts";
import type { EditorSignIn } from "../auth/editor-sign-in.ts";
import { toolPermissions } from "../auth/audiences.ts";
import { type Options, OptionsError } from "../options/parse.ts";
import type { Runtime } from "../runtime/runtime.ts";
import type { MemoryBudget } from "../server/memory/memory-budget.ts";
import type { ServerOptions } from "../server/open-server.ts";
import { createRequestIds } from "../server/pipeline/request-context.ts";
import { openToolsListener, type ToolsListener } from "../server/tools/listener.ts";
import type { Store } from "../store/store.ts";
import { silentObserver } from "../telemetry/observer.ts";
import type { Live } from "./live.ts";
import { createToolsHost } from "./tools-host.ts";

export type ToolsOptions = {
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
  readonly live: Pick<Live, "redaction" | "hub" | "journal" | "join">;
  readonly log: Logger;
  readonly shutdownSignal: AbortSignal;
};

/** Opens the listener of Node-RED's tools. Its code is loaded only if the port is configured. */
export async function openTools(tools: ToolsOptions, stack: AsyncDisposableStack): Promise<ToolsListener> {
  const { options, serverOptions, editorSignIn, runtime } = tools;
  const { host, hosts, trustedProxies, limits, modules, drain, nodeRed, dataDir } = options;
  const { tls, observer = silentObserver } = serverOptions;
  const { version } = runtime.status();
  const signInHosts = editorSignIn === undefined ? [] : [new URL(editorSignIn.url).hostname];
  const ownHosts = tls === undefined ? [host, ...hosts, ...signInHosts] : undefined;
  const requestIdOf = createRequestIds();
  const nodeRedOptions = {
    host: createToolsHost({ ...tools, ownHosts, requestIdOf }, stack),
    version,
    httpNodeRoot: options.runtime.http.root,
    permissions: toolPermissions,
    bodyBytes: limits.bodyBytes,
    ...(nodeRed.editor !== false && {
      editor: { dir: findEditor(version), cacheDir: join(dataDir, "editor"), catalogue: nodeRed.catalogue },
    }),
  };
  return stack.use(
    await openToolsListener({
      host,
      port: nodeRed.port ?? 0,
      ownHosts,
      tls,
      trustedProxies,
      limits,
      observer,
      requestIdOf,
      responseTimeoutMs: Math.max(limits.requestTimeoutMs, modules.timeoutMs) + 60_000,
      closeGraceMs: drain.graceMs,
      serve: (app) => serveNodeRed(app, nodeRedOptions),
    }),
  );
}

/** The folder of Node-RED's editor, which is an optional package. */
function findEditor(version: string): string {
  const name = "@node-red/editor-client";
  try {
    return join(resolvePackage(`${name}/package.json`), "..");
  } catch {
    const message = `needs the package ${name}, which is not installed: run npm install ${name}@${version} where flowgate is installed`;
    throw new OptionsError([{ path: ["nodeRed", "editor"], message }]);
  }
}
