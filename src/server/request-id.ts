import { randomBytes } from "node:crypto";
import type { FastifyInstance } from "fastify";

/**
 * The id of a request: the caller's X-Request-Id where it is printable ASCII and short, else a fresh
 * one. Fresh ones count up behind a random prefix of the process.
 */
export function createRequestIds(): (request: { headers: NodeJS.Dict<string | string[]> }) => string {
  const prefix = randomBytes(6).toString("base64url");
  let count = 0;
  return ({ headers: { "x-request-id": given } }) => {
    if (typeof given === "string" && /^[\x21-\x7e]{1,128}$/.test(given)) {
      return given;
    }
    count += 1;
    return `${prefix}-${count.toString(36)}`;
  };
}

/** Answers the id to whoever sent one. Set on the raw response, so that hijacked replies carry it too. */
export function answerRequestIds(app: FastifyInstance): void {
  app.addHook("onRequest", (request, reply, done) => {
    if (request.raw.headers["x-request-id"] !== undefined) {
      reply.raw.setHeader("x-request-id", request.id);
    }
    done();
  });
}
