import type { FastifyInstance } from "fastify";
import { FlowgateError } from "../errors.ts";
import { hasLongBody } from "./errors.ts";
import { createClientCounter } from "../server/http/client-counter.ts";

/** Requests in flight: of callers that were checked, those of them with a long body, which is in memory, and of all others. */
const limits = { checked: 128, long: 4, open: 128 } as const;

/** Of those to public routes, for each source: whose client reads slowly takes the time of a response. */
const openOfSource = 32;

/**
 * Limits how many requests are in flight. Must be called after `protectRoutes`. Requests to public routes are counted apart, so that they
 * can't keep others out.
 */
export function limitRequests(app: FastifyInstance): void {
  const counts = { checked: 0, long: 0, open: 0 };
  // Addresses are those of clients, not of proxies.
  const sources = createClientCounter(openOfSource, () => false);
  app.addHook("onRequest", (request, reply, done) => {
    const isOpen = request.routeOptions.config.access?.kind === "public";
    const isLong = !isOpen && hasLongBody(request.headers);
    const kinds = [isOpen ? "open" : "checked", ...(isLong ? ["long"] : [])] as (keyof typeof limits)[];
    const isFull = kinds.some((kind) => counts[kind] >= limits[kind]);
    const release = isOpen && !isFull ? sources.admit(request.ip) : undefined;
    if (isFull || (isOpen && release === undefined)) {
      const headers = { "retry-after": "1" };
      done(new FlowgateError("overloaded", "too many requests are in progress: try again later", { headers }));
      return;
    }
    kinds.forEach((kind) => (counts[kind] += 1));
    reply.raw.once("close", () => {
      kinds.forEach((kind) => (counts[kind] -= 1));
      release?.();
    });
    done();
  });
}
