import type { AddressInfo } from "node:net";
import type { Logger } from "pino";
import type { PermissionCheck } from "../auth/gate.ts";
import { FlowgateError } from "../errors.ts";
import { type Metrics, metricsContentType } from "../telemetry/metrics.ts";
import { createHostCheck } from "./guards/host-check.ts";
import { createLimitLog } from "./limit-log.ts";
import { createListener } from "./listener/listener.ts";
import type { Exchange, ExchangeHandler } from "./listener/exchange.ts";
import type { TranscodingResponse } from "@flowgate/transcoding/server";
import { createEndpoint } from "./pipeline/endpoint.ts";
import type { Route } from "./pipeline/request-context.ts";
import { errorResponse } from "./error-response.ts";
import { createRequestIds } from "./request-id.ts";

/** `/metrics` on the port of the API, for callers that `checkPermission` admits. */
export function createMetricsEndpoint(metrics: Metrics, checkPermission: PermissionCheck): [string, Route] {
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
      // As the HTTP API answers: without a body.
      return { status: 401, headers: { "www-authenticate": challenge }, body: undefined };
    }
    return metricsAnswer(metrics);
  });
}

function challengeOf(error: unknown): string | undefined {
  return error instanceof FlowgateError ? error.headers["www-authenticate"] : undefined;
}

export interface MetricsServer extends AsyncDisposable {
  readonly url: string;
}

/** Enough for several scrapers: more would only have the API wait. */
const scrapeLimits = {
  connections: 100,
  connectionsPerSource: 100,
  callsPerConnection: 10,
  headersTimeoutMs: 10_000,
  requestTimeoutMs: 10_000,
  // A scrape that is under way may be missed: the next one comes from the process that follows.
  closeGraceMs: 100,
};

/** Serves `/metrics`, and nothing else, to whoever reaches this port. */
export async function openMetricsServer(options: {
  host: string;
  /** 0 takes any free one. */
  port: number;
  metrics: Metrics;
  log: Logger;
  /** The names by which it is called, beside its addresses and localhost. Absent: any. */
  hosts?: readonly string[] | undefined;
}): Promise<MetricsServer> {
  const { host, port, metrics, log, hosts } = options;
  const isOwn = hosts === undefined ? () => true : createHostCheck(hosts);
  const answer = (exchange: Exchange): TranscodingResponse | Promise<TranscodingResponse> => {
    const { ":authority": authority, host: named } = exchange.headers as Record<string, string | undefined>;
    if (!isOwn(authority ?? named ?? "")) {
      return errorResponse(421, "the Host is no name of this service: add it to its option hosts if it is one");
    }
    const [path] = exchange.target.split("?", 1);
    if (path !== "/metrics") {
      return errorResponse(404, "there is nothing at this path but /metrics");
    }
    return exchange.method === "GET" || exchange.method === "HEAD"
      ? metricsAnswer(metrics)
      : errorResponse(405, "/metrics is read with GET", { headers: { Allow: "GET, HEAD" } });
  };
  const requestIdOf = createRequestIds();
  const serve: ExchangeHandler = (exchange, refusal) => {
    const requestId = requestIdOf(exchange.headers);
    Promise.resolve(refusal ?? answer(exchange))
      .then((answered) => {
        answered.headers["x-request-id"] = requestId;
        exchange.send(answered);
      })
      .catch((error: unknown) => {
        log.error({ requestId, err: error }, "the metrics could not be read");
        exchange.abort();
      });
  };
  const server = createListener(serve, { ...scrapeLimits, onLimit: createLimitLog(log) });
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  server.once("error", reject);
  server.listen(port, host, resolve);
  await promise;
  server.off("error", reject);
  const { address, family, port: bound } = server.address() as AddressInfo;
  return {
    url: `http://${family === "IPv6" ? `[${address}]` : address}:${bound}/metrics`,
    [Symbol.asyncDispose]: () => new Promise((closed) => void server.close(() => closed())),
  };
}

async function metricsAnswer(metrics: Metrics): Promise<TranscodingResponse> {
  return {
    status: 200,
    headers: { "content-type": metricsContentType, "cache-control": "no-store" },
    body: Buffer.from(await metrics.text()),
  };
}
