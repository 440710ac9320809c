import type { Server } from "../server/open-server.ts";
import type { MetricsServer } from "../server/endpoints/metrics.ts";
import type { ToolsListener } from "../server/tools/listener.ts";
import type { Foundation } from "./foundation.ts";
import type { Live } from "./events.ts";
import { openMetricsPort } from "./metrics.ts";
import { createMount } from "./mount.ts";
import type { Mount } from "./mounted-api.ts";
import type { Services } from "./open-services.ts";
import type { Runtimes } from "./runtimes.ts";
import { createMemoryBudget, openServer } from "../server/open-server.ts";
import type { ServerOptions } from "../server/server-options.ts";
import type { Metrics } from "../telemetry/metrics.ts";

/** The servers of the API and of the other ports. */
export type Listeners = {
  /** Without a port if the program serves the API. */
  readonly server: Server;
  /** The API for a server of the program. */
  readonly mount: Mount;
  /** Undefined: Node-RED's admin API is not served. */
  readonly tools: ToolsListener | undefined;
  /** Undefined: metrics have no port of their own. */
  readonly metricsServer: MetricsServer | undefined;
};

type ListenersOptions = Foundation &
  Pick<Runtimes, "runtime"> &
  Pick<Services, "authenticator" | "editorSignIn" | "audit" | "implementations"> & {
    readonly live: Live;
    readonly metrics: Metrics | undefined;
    readonly serverOptions: ServerOptions;
  };

/** Opens the ports, last of all. Resources are added to the stack. */
export async function openListeners(
  { serverOptions, ...parts }: ListenersOptions,
  stack: AsyncDisposableStack,
): Promise<Listeners> {
  const { options, listen, log, ports, metrics } = parts;
  const memory = createMemoryBudget(serverOptions);
  const server = listen ? stack.use(await openServer({ ...serverOptions, memory })) : createNoServer();
  if (listen) {
    ports.opened("api", server.port);
  }
  const closing = new AbortController();
  stack.defer(() => closing.abort());
  const shutdownSignal = closing.signal;
  const mount = createMount({ ...serverOptions, options, shutdownSignal });
  const toolsOptions = { ...parts, serverOptions, memory, shutdownSignal };
  const tools =
    options.nodeRed.port === undefined ? undefined : await (await import("./tools.ts")).openTools(toolsOptions, stack);
  if (tools !== undefined) {
    ports.opened("tools", tools.port);
  }
  const metricsServer = stack.use(await openMetricsPort(metrics, options, log));
  if (metricsServer !== undefined) {
    ports.opened("metrics", Number(new URL(metricsServer.url).port));
  }
  return { server, mount, tools, metricsServer };
}

/** Stands for the server with `listen: false`. */
function createNoServer(): Server {
  return {
    url: "",
    port: 0,
    socketPath: undefined,
    drain() {},
    connections: () => 0,
    async [Symbol.asyncDispose]() {},
  };
}
