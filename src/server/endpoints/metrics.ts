import type { Logger } from "pino";
import type { PermissionCheck } from "../../auth/gate.ts";
import { FlowgateError } from "@flowgate/flows/errors";
import { type Metrics, metricsContentType } from "../../telemetry/metrics.ts";
import { createHostCheck } from "../pipeline/guards/browser-safety.ts";
import { createLimitLog } from "../http/limit-log.ts";
import { createListener } from "../http/listener.ts";
import type { Exchange, ExchangeHandler } from "../http/exchange.ts";
import type { GatewayResponse } from "@flowgate/gateway";
import { createEndpoint } from "../pipeline/router.ts";
import { createRequestIds, type RequestRoute } from "../pipeline/request-context.ts";
import { errorResponse } from "../http/error-response.ts";

/** `/metrics` on the port of the API, for callers that `checkPermission` allows. */
export function createMetricsEndpoint(metrics: Metrics, checkPermission: PermissionCheck): [string, RequestRoute] {
  return createEndpoint("/metrics", true, async (request) => {
    const { authorization } = request.headers;
    try {
      await checkPermission({
        url: request.target,
        requestHeader: new Headers(authorization === undefined ? {} : { authorization }),
        values: request.contextValues(),
      });
    } catch (error) {
      const challenge = challengeOf(error);
      if (challenge === undefined) {
        throw error;
      }
      // Without a body, like the 401 responses of the HTTP API.
      return { status: 401, headers: { "www-authenticate": challenge }, body: undefined };
    }
    return metricsResponse(metrics);
  });
}

function challengeOf(error: unknown): string | undefined {
  return error instanceof FlowgateError ? error.challenge : undefined;
}

export interface MetricsServer extends AsyncDisposable {
  readonly url: string;
}

/** Enough for several scrapers; more concurrent scrapes would slow down the API. */
const scrapeLimits = {
  connections: 100,
  connectionsPerSource: 100,
  callsPerConnection: 10,
  headersTimeoutMs: 10_000,
  requestTimeoutMs: 10_000,
  // Interrupting a scrape does no harm: the next one is served by the successor of this process.
  closeGraceMs: 100,
};

/** Serves only `/metrics`, without authentication, on a port of its own. */
export async function openMetricsServer(options: {
  host: string;
  /** 0 takes any free port. */
  port: number;
  metrics: Metrics;
  log: Logger;
  /** Host names of the service, besides its addresses and localhost. Absent: any. */
  hosts?: readonly string[] | undefined;
}): Promise<MetricsServer> {
  const { host, port, metrics, log, hosts } = options;
  const isOwn = hosts === undefined ? () => true : createHostCheck(hosts);
  const respond = (exchange: Exchange): GatewayResponse | Promise<GatewayResponse> => {
    const { ":authority": authority, host: hostHeader } = exchange.headers as Record<string, string | undefined>;
    if (!isOwn(authority ?? hostHeader ?? "")) {
      return errorResponse(421, "the Host is not a name of this service; if it should be, add it to the option hosts");
    }
    const [path] = exchange.target.split("?", 1);
    if (path !== "/metrics") {
      return errorResponse(404, "only /metrics is served on this port");
    }
    return exchange.method === "GET" || exchange.method === "HEAD"
      ? metricsResponse(metrics)
      : errorResponse(405, "/metrics supports only GET", { headers: { Allow: "GET, HEAD" } });
  };
  const requestIdOf = createRequestIds();
  const serve: ExchangeHandler = (exchange, rejection) => {
    const requestId = requestIdOf(exchange.headers);
    Promise.resolve(rejection ?? respond(exchange))
      .then((response) => {
        response.headers["x-request-id"] = requestId;
        exchange.send(response);
      })
      .catch((error: unknown) => {
        log.error({ requestId, err: error }, "the metrics could not be read");
        exchange.abort();
      });
  };
  const server = createListener(serve, { ...scrapeLimits, onLimit: createLimitLog(log) });
  const { address, family, port: bound } = await server.listenOn(host, port);
  return {
    url: `http://${family === "IPv6" ? `[${address}]` : address}:${bound}/metrics`,
    [Symbol.asyncDispose]: () => new Promise((closed) => void server.close(() => closed())),
  };
}

async function metricsResponse(metrics: Metrics): Promise<GatewayResponse> {
  return {
    status: 200,
    headers: { "content-type": metricsContentType, "cache-control": "no-store" },
    body: Buffer.from(await metrics.text()),
  };
}
