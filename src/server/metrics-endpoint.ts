import type { IncomingMessage, ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import type { ContextValues } from "@connectrpc/connect";
import type { FastifyInstance, FastifyRequest } from "fastify";
import type { Logger } from "pino";
import type { Guard } from "../auth/gate.ts";
import { FlowgateError } from "../errors.ts";
import { type Metrics, metricsContentType } from "../telemetry/metrics.ts";
import { createHostCheck } from "./guards/host-check.ts";
import { createLimitLog } from "./limit-log.ts";
import { createListener } from "./listener/listener.ts";
import { sendRefusal } from "./refusal.ts";
import type { RequestHandler } from "./listener/request-handler.ts";

/** Serves `/metrics` beside the API, to whom the guard lets in. */
export function registerMetrics(
  app: FastifyInstance,
  options: { metrics: Metrics; guard: Guard; contextValues: (request: FastifyRequest) => ContextValues },
): void {
  const { metrics, guard, contextValues } = options;
  app.all("/metrics", async (request, reply) => {
    const { authorization } = request.headers;
    try {
      await guard({
        url: request.raw.url ?? "",
        requestHeader: new Headers(authorization === undefined ? {} : { authorization }),
        values: contextValues(request),
      });
    } catch (error) {
      const challenge = challengeOf(error);
      if (challenge === undefined) {
        throw error;
      }
      // As the HTTP API answers: without a body.
      return reply.code(401).header("www-authenticate", challenge).send();
    }
    reply.hijack();
    await answer(metrics, request.raw, reply.raw);
    return undefined;
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
  hosts?: readonly string[];
}): Promise<MetricsServer> {
  const { host, port, metrics, log, hosts } = options;
  const isOwn = hosts === undefined ? () => true : createHostCheck(hosts);
  const serve: RequestHandler = (request, response) => {
    const { host: named, ":authority": authority } = request.headers as Record<string, string | undefined>;
    if (!isOwn(authority ?? named ?? "")) {
      sendRefusal(response, 421, "the Host is no name of this service: add it to its option hosts if it is one");
      return;
    }
    const [path] = (request.url ?? "").split("?", 1);
    if (path !== "/metrics") {
      sendRefusal(response, 404, "there is nothing at this path but /metrics");
      return;
    }
    answer(metrics, request, response).catch((error: unknown) => {
      log.error({ err: error }, "the metrics could not be read");
      response.destroy();
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

async function answer(metrics: Metrics, { method }: IncomingMessage, response: ServerResponse): Promise<void> {
  if (method !== "GET" && method !== "HEAD") {
    sendRefusal(response, 405, "/metrics is read with GET", { Allow: "GET, HEAD" });
    return;
  }
  const body = Buffer.from(await metrics.text());
  response.writeHead(200, {
    "Content-Type": metricsContentType,
    "Content-Length": body.length,
    "Cache-Control": "no-store",
  });
  response.end(method === "HEAD" ? undefined : body);
}
