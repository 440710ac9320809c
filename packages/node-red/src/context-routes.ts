import { Code, ConnectError, createClient } from "@connectrpc/connect";
import { ContextService } from "@flowgate/client";
import { FlowgateError } from "@flowgate/flows/errors";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { requires, signalOf } from "./access.ts";
import type { ContextPlace, FlowRuntime } from "./host.ts";

type Scope = ContextPlace["scope"];
type ContextRequest = FastifyRequest<{
  Params: { id?: string; "*"?: string };
  Querystring: { store?: unknown; keysOnly?: unknown };
}>;

/** Values that flows keep between messages, as the sidebar of Node-RED's editor shows them. */
export function addContextRoutes(app: FastifyInstance, runtime: Pick<FlowRuntime, "context">): void {
  const reads = { config: requires("context.read") };
  const writes = { config: requires("context.write") };

  async function read(scope: Scope, request: ContextRequest, reply: FastifyReply): Promise<unknown> {
    const keysOnly = request.query.keysOnly === undefined ? undefined : true;
    const found = await runtime.context({ scope, ...readPlace(request), keysOnly }, signalOf(reply));
    if (found === undefined) {
      throw new FlowgateError("not_found", "there is no such context store");
    }
    return found;
  }

  async function remove(scope: Scope, request: ContextRequest, reply: FastifyReply): Promise<FastifyReply> {
    const { id, key = "", store = "" } = readPlace(request);
    const place = [scope, ...(id === undefined ? [] : [id.replaceAll("/", "%2F")]), key].join("/");
    try {
      await createClient(ContextService, request.caller.api).deleteContext({ scope: place, store });
    } catch (error) {
      if (!(error instanceof ConnectError && error.code === Code.NotFound)) {
        throw error;
      }
      // As in Node-RED, the value may be absent, but not the store.
      await read(scope, request, reply);
    }
    return reply.status(204).send();
  }

  app.get("/context/global", reads, (request, reply) => read("global", request as ContextRequest, reply));
  app.get("/context/global/*", reads, (request, reply) => read("global", request as ContextRequest, reply));
  app.delete("/context/global/*", writes, (request, reply) => remove("global", request as ContextRequest, reply));
  for (const scope of ["flow", "node"] as const) {
    app.get(`/context/${scope}/:id`, reads, (request, reply) => read(scope, request as ContextRequest, reply));
    app.get(`/context/${scope}/:id/*`, reads, (request, reply) => read(scope, request as ContextRequest, reply));
    app.delete(`/context/${scope}/:id/*`, writes, (request, reply) => remove(scope, request as ContextRequest, reply));
  }
}

function readPlace({ params, query }: ContextRequest): Pick<ContextPlace, "id" | "key" | "store"> {
  const { id, "*": key } = params;
  const { store } = query;
  if (store !== undefined && typeof store !== "string") {
    throw new FlowgateError("invalid_argument", "store: must be sent once");
  }
  return { id, key: key === "" ? undefined : key, store: store === "" ? undefined : store };
}
