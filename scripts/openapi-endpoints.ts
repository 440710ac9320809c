import type { PathItem, Response, Schema } from "../packages/transcoding/src/openapi/document.ts";

export const endpointsTag = { name: "Server", description: "The state of the server, for probes and for Prometheus." };

const status = (...values: string[]): Schema => ({
  type: "object",
  properties: { status: { type: "string", enum: values } },
  required: ["status"],
});

function reports(description: string, schema: Schema, examples: Record<string, object>): Response {
  const named = Object.entries(examples).map(([name, value]) => [name, { value }]);
  return { description, content: { "application/json": { schema, examples: Object.fromEntries(named) } } };
}

const otherError: Response = {
  description: "Any other error.",
  content: { "application/json": { schema: { $ref: "#/components/schemas/Error" } } },
};

/** The paths that are no RPCs, and so are in no .proto. */
export const endpoints: Record<string, PathItem> = {
  "/healthz": {
    get: {
      operationId: "getHealth",
      tags: [endpointsTag.name],
      summary: "Tells that the process serves.",
      responses: {
        200: reports("It serves.", status("ok"), { ok: { status: "ok" } }),
        default: otherError,
      },
      security: [],
    },
  },
  "/readyz": {
    get: {
      operationId: "getReadiness",
      tags: [endpointsTag.name],
      summary: "Tells whether the service can do its work, and does not drain.",
      responses: {
        200: reports("It can.", status("ready"), { ready: { status: "ready" } }),
        503: reports(
          "It cannot, or it drains.",
          {
            ...status("not ready", "draining"),
            properties: {
              status: { type: "string", enum: ["not ready", "draining"] },
              store: { type: "string", description: '"open", or why it cannot be used.' },
              runtime: { type: "string", description: "The state of the flow runtime." },
              message: { type: "string", description: "What the flow runtime reports about its state." },
            },
          },
          {
            notReady: { status: "not ready", store: "open", runtime: "starting" },
            draining: { status: "draining" },
          },
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
      description: "Absent (404) where metrics are off, or have a port of their own.",
      responses: {
        200: { description: "The metrics.", content: { "text/plain": { schema: { type: "string" } } } },
        401: {
          description: "The caller is not authenticated, or lacks the permission. Without a body.",
          headers: { "WWW-Authenticate": { schema: { type: "string" } } },
        },
        default: otherError,
      },
      security: [{ token: ["metrics.read"] }],
    },
  },
};
