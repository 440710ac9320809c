import { join } from "node:path";
import { resolvePackage } from "@flowgate/base/resolve-package";
import { serveNodeRed } from "@flowgate/node-red";
import { toolPermissions } from "../auth/audiences.ts";
import { OptionsError } from "../options/parse.ts";
import { createRequestIds } from "../server/pipeline/request-context.ts";
import { openToolsListener, type ToolsListener } from "../server/tools/listener.ts";
import { silentObserver } from "../telemetry/observer.ts";
import { createToolsHost, type ToolsHostOptions } from "./tools-host.ts";

type ToolsOptions = Omit<ToolsHostOptions, "ownHosts" | "requestIdOf">;

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
