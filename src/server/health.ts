import type { FastifyInstance } from "fastify";
import { sendRefusal } from "./refusal.ts";

/** Whether the service can do its work now; what else it holds tells which part can or can't. */
export type Readiness = { ready: boolean; [check: string]: unknown };

/** `/healthz`: the process serves. `/readyz`: it has all it needs to serve well. */
export function registerHealth(app: FastifyInstance, ready: () => Readiness): void {
  answer(app, "/healthz", () => [200, { status: "ok" }]);
  answer(app, "/readyz", () => {
    const { ready: isReady, ...checks } = ready();
    return isReady ? [200, { status: "ready" }] : [503, { status: "not ready", ...checks }];
  });
}

function answer(app: FastifyInstance, path: string, state: () => [status: number, body: object]): void {
  app.all(path, (request, reply) => {
    if (request.method !== "GET" && request.method !== "HEAD") {
      reply.hijack();
      sendRefusal(reply.raw, 405, `${path} is read with GET`, { Allow: "GET, HEAD" });
      return;
    }
    const [status, body] = state();
    return reply.code(status).header("cache-control", "no-store").send(body);
  });
}
