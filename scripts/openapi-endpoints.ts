import type { PathItem, Response, Schema } from "../packages/gateway/src/openapi/document.ts";
import { requireScopes } from "./openapi-security.ts";

export const endpointsTag = { name: "Server", description: "The state of the server, for probes and for Prometheus." };

const status = (...values: string[]): Schema => ({
  type: "object",
  properties: { status: { type: "string", enum: values } },
  required: ["status"],
});

function jsonResponse(description: string, schema: Schema, examples: Record<string, object>): Response {
  const named = Object.entries(examples).map(([name, value]) => [name, { value }]);
  return { description, content: { "application/json": { schema, examples: Object.fromEntries(named) } } };
}

const otherError: Response = {
  description: "Any other error.",
  content: { "application/json": { schema: { $ref: "#/components/schemas/Error" } } },
};

const counter = `# HELP flowgate_deployments_total Deployments, by type and outcome.
# TYPE flowgate_deployments_total counter
flowgate_deployments_total{type="full",outcome="running"} 12
`;

/** The endpoints that are not RPCs, and therefore are not in the .proto files. */
export const endpoints: Record<string, PathItem> = {
  "/healthz": {
    get: {
      operationId: "getHealth",
      tags: [endpointsTag.name],
      summary: "Reports that the process is running.",
      responses: {
        200: jsonResponse("The process is running.", status("ok"), { ok: { status: "ok" } }),
        default: otherError,
      },
      security: [],
    },
  },
  "/readyz": {
    get: {
      operationId: "getReadiness",
      tags: [endpointsTag.name],
      summary: "Reports whether the service is ready for requests.",
      responses: {
        200: jsonResponse("The service is ready.", status("ready"), { ready: { status: "ready" } }),
        503: jsonResponse(
          "The service is not ready, or is draining.",
          {
            ...status("not ready", "draining"),
            properties: {
              status: { type: "string", enum: ["not ready", "draining"] },
              store: { type: "string", description: '"open", or why the store cannot be used.' },
              runtime: { type: "string", description: "The state of the flow runtime." },
              message: { type: "string", description: "Why the active flows are not running." },
            },
          },
          { notReady: { status: "not ready", store: "open", runtime: "starting" }, draining: { status: "draining" } },
        ),
        default: otherError,
      },
      security: [],
    },
  },
  "/metrics": {
    get: {
      operationId: "getMetrics",
      tags: [endpointsTag.name],
      summary: "The metrics, in the text format of Prometheus.",
      description: "404 if metrics are disabled, or are served on a separate port.",
      responses: {
        200: {
          description: "The metrics.",
          content: { "text/plain": { schema: { type: "string" }, examples: { counter: { value: counter } } } },
        },
        401: {
          description: "The caller is not authenticated, or lacks the permission. The body is empty.",
          headers: { "WWW-Authenticate": { schema: { type: "string" } } },
        },
        default: otherError,
      },
      security: requireScopes(["metrics.read"]),
    },
  },
};
