import {
  type FastifyError,
  type FastifyInstance,
  type FastifyReply,
  type FastifyRequest,
  LogController,
} from "fastify";
import type { Logger } from "pino";
import { traceIdsOf } from "./exchange.ts";
import { clientAddress } from "./trusted-proxies.ts";

/** Logs each request as it completes. Where the level leaves that out, requests do not pay for it. */
export function logRequests(app: FastifyInstance, log: Logger): void {
  if (!log.isLevelEnabled("debug")) {
    return;
  }
  // An HTTP/2 stream that has ended no longer tells whose connection it was on.
  const clients = new WeakMap<FastifyRequest, string>();
  app.addHook("onRequest", (request, _reply, done) => {
    clients.set(request, clientAddress(request));
    done();
  });
  app.addHook("onResponse", (request, reply, done) => {
    const { statusCode: status } = reply.raw;
    // 501 and 505: what the client asked for is nothing that we do.
    const level = status >= 500 && status !== 501 && status !== 505 ? "error" : "debug";
    log[level](
      {
        requestId: request.id,
        ...traceIdsOf(request.raw),
        client: clients.get(request),
        method: request.method,
        path: pathOf(request),
        status,
        ms: Math.round(reply.elapsedTime * 100) / 100,
        protocol: `HTTP/${request.raw.httpVersion}`,
      },
      "request completed",
    );
    done();
  });
}

function idsOf({ id, raw }: FastifyRequest) {
  return { requestId: id, ...traceIdsOf(raw) };
}

/** The target of a request without its query, which may hold what no log should. */
function pathOf(request: FastifyRequest): string {
  const [path = ""] = (request.raw.url ?? "").split("?", 1);
  return path;
}

/**
 * What Fastify itself has to say, into the service's log. Fastify gets no logger of its own: it would
 * make a child of it for every request.
 */
export class FastifyLog extends LogController {
  readonly #log: Logger;

  constructor(log: Logger) {
    super({ disableRequestLogging: true });
    this.#log = log;
  }

  override streamError(error: FastifyError, request: FastifyRequest): void {
    const level = error.code === "ERR_STREAM_PREMATURE_CLOSE" ? "debug" : "warn";
    this.#log[level]({ ...idsOf(request), err: error }, "a response broke off");
  }

  override writeHeadError(error: Error, request: FastifyRequest): void {
    this.#log.error({ ...idsOf(request), err: error }, "the head of a response could not be written");
  }

  override serializerError(error: Error, request: FastifyRequest, _reply: FastifyReply): void {
    this.#log.error({ ...idsOf(request), err: error }, "a response could not be serialized");
  }

  override serviceUnavailable(): void {}
}
