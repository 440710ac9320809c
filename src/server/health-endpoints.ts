import type { GatewayResponse } from "@flowgate/gateway/server";
import type { Health } from "./health.ts";
import { createEndpoint } from "./pipeline/endpoint.ts";
import type { Route } from "./pipeline/request-context.ts";

/** `/healthz` (liveness): the process serves requests. `/readyz` (readiness): it is ready and not draining. */
export function createHealthEndpoints(health: Health): [string, Route][] {
  return [
    createEndpoint("/healthz", true, () => healthResponse(200, { status: "ok" })),
    createEndpoint("/readyz", true, () => {
      const { ready, notServing: _, ...checks } = health.readiness();
      if (health.draining) {
        return healthResponse(503, { status: "draining" });
      }
      return ready ? healthResponse(200, { status: "ready" }) : healthResponse(503, { status: "not ready", ...checks });
    }),
  ];
}

function healthResponse(status: number, body: object): GatewayResponse {
  const headers = { "content-type": "application/json", "cache-control": "no-store" };
  return { status, headers, body: JSON.stringify(body) };
}
