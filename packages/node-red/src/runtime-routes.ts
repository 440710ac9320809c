import { createClient } from "@connectrpc/connect";
import { isFields } from "@flowgate/base/fields";
import { RuntimeService } from "@flowgate/client";
import type { FastifyInstance } from "fastify";
import { requires, signalOf } from "./access.ts";
import { NodeRedError } from "./errors.ts";
import type { FlowRuntime } from "./host.ts";

type Runtime = Pick<FlowRuntime, "isStarted" | "diagnostics" | "credentials">;

/** The state of the flows, which is stored, and what the runtime process knows. */
export function addRuntimeRoutes(app: FastifyInstance, runtime: Runtime): void {
  const state = (): { state: string } => ({ state: runtime.isStarted() ? "start" : "stop" });

  app.get("/flows/state", { config: requires("flows.read") }, state);
  app.post("/flows/state", { config: requires("runtime.write") }, async (request, reply) => {
    const { startFlows, stopFlows } = createClient(RuntimeService, request.caller.api);
    const { state: wanted } = isFields(request.body) ? request.body : {};
    if (wanted !== "start" && wanted !== "stop") {
      throw new NodeRedError(400, "invalid_run_state", "state: must be start or stop");
    }
    await (wanted === "start" ? startFlows : stopFlows)({}, { signal: signalOf(reply) });
    return state();
  });

  app.get("/diagnostics", { config: requires("runtime.read") }, (_request, reply) =>
    runtime.diagnostics(signalOf(reply)),
  );

  app.get<{ Params: { type: string; id: string } }>(
    "/credentials/:type/:id",
    { config: requires("flows.read") },
    async (request, reply) => {
      const { type, id } = request.params;
      const credentials = await runtime.credentials({ type, id }, signalOf(reply));
      return request.caller.permissions.includes("flows.write") ? credentials : withoutTexts(credentials);
    },
  );
}

/** For callers who can't change credentials: only the names. */
function withoutTexts(credentials: Readonly<Record<string, unknown>>): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(credentials).map(([name, value]) => [name, typeof value === "string" ? "" : value]),
  );
}
