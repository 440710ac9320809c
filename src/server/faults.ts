import type { FastifyError, FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import type { Logger } from "pino";
import { traceIdsOf } from "./exchange.ts";
import { internalMessage } from "./interceptors.ts";
import { sendRefusal } from "./refusal.ts";

const messages: Readonly<Record<number, string>> = {
  400: "the request is malformed",
  413: "the body is too large",
  414: "the path is too long",
  415: "the media type of the body is not supported",
};

export type FaultHandler = (error: FastifyError, request: FastifyRequest, reply: FastifyReply) => void;

/**
 * Answers what Fastify refuses, and what breaks outside of any RPC. Fastify's own messages stay out of
 * the answer: they repeat the target, with its query.
 */
export function createFaultHandler(log: Logger): FaultHandler {
  return (error, request, reply) => {
    reply.hijack();
    const status = error.statusCode ?? 500;
    if (status >= 400 && status < 500) {
      sendRefusal(reply.raw, status, messages[status] ?? "the request can't be served as it was sent");
      return;
    }
    log.error({ requestId: request.id, ...traceIdsOf(request.raw), err: error }, "a request failed unexpectedly");
    if (reply.raw.headersSent) {
      reply.raw.destroy();
    } else {
      sendRefusal(reply.raw, 500, internalMessage(request.id));
    }
  };
}

/** Answers what no route matches. */
export function refuseUnknown(app: FastifyInstance): void {
  app.setNotFoundHandler((_request, reply) => {
    reply.hijack();
    sendRefusal(reply.raw, 404, "there is nothing at this path");
  });
}
