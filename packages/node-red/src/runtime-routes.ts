import type { FastifyInstance, FastifyReply } from "fastify";
import { callerOf, requires } from "../../../src/server/tools/access.ts";
import { NodeRedError } from "./errors.ts";
import { RuntimeService } from "../../../gen/flowgate/v1/runtime_pb.ts";
import { allows } from "../../../src/auth/permissions.ts";
import { isFields } from "@flowgate/base/fields";
import type { Procedure } from "../../../src/runtime/calls.ts";
import { readDiagnostics, readNodeCredentials } from "../../../src/runtime/editor-procedures.ts";
import { callRunner, type Runner } from "../../../src/services/runner.ts";
import type { ServiceCalls } from "../../../src/app/service-calls.ts";

export type RuntimeRoutesOptions = { readonly runner: Runner; readonly calls: ServiceCalls };

/** The state of the flows, which is stored, and what the process of the flows knows. */
export function addRuntimeRoutes(app: FastifyInstance, { runner, calls }: RuntimeRoutesOptions): void {
  const call = async <Argument, Result>(
    procedure: Procedure<Argument, Result>,
    argument: Argument,
    reply: FastifyReply,
  ): Promise<Result> => {
    const disconnected = new AbortController();
    reply.raw.once("close", () => disconnected.abort());
    const context = { timeoutMs: () => undefined, signal: disconnected.signal };
    return (await callRunner(runner, procedure, argument, context)).result;
  };
  const state = (): { state: string } => ({ state: runner.desired.current().isStarted ? "start" : "stop" });

  app.get("/flows/state", { config: requires("flows.read") }, state);
  app.post("/flows/state", { config: requires("runtime.write") }, async (request, reply) => {
    const { startFlows, stopFlows } = RuntimeService.method;
    const { state: wanted } = isFields(request.body) ? request.body : {};
    if (wanted === "start") {
      await calls.call(startFlows, {}, request, reply);
    } else if (wanted === "stop") {
      await calls.call(stopFlows, {}, request, reply);
    } else {
      throw new NodeRedError(400, "invalid_run_state", "state: must be start or stop");
    }
    return state();
  });

  app.get("/diagnostics", { config: requires("runtime.read") }, (_request, reply) => call(readDiagnostics, {}, reply));

  app.get<{ Params: { type: string; id: string } }>(
    "/credentials/:type/:id",
    { config: requires("flows.read") },
    async (request, reply) => {
      const { type, id } = request.params;
      const credentials = await call(readNodeCredentials, { type, id }, reply);
      return allows(callerOf(request).permissions, "flows.write") ? credentials : withoutTexts(credentials);
    },
  );
}

/** Who can't change credentials sees only which there are. */
function withoutTexts(credentials: Readonly<Record<string, unknown>>): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(credentials).map(([name, value]) => [name, typeof value === "string" ? "" : value]),
  );
}
