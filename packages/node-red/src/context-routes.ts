import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { requires } from "../../../src/server/tools/access.ts";
import { ContextService } from "../../../gen/flowgate/v1/context_pb.ts";
import { FlowgateError } from "@flowgate/flows/errors";
import { type EditorContextArgument, readEditorContext } from "../../../src/runtime/editor-procedures.ts";
import { callRunner, type Runner } from "../../../src/services/runner.ts";
import type { FlowStore } from "../../../src/store/flow-store.ts";
import type { ServiceCalls } from "../../../src/app/service-calls.ts";

export type ContextRoutesOptions = {
  readonly runner: Runner;
  readonly store: Pick<FlowStore, "active">;
  readonly calls: ServiceCalls;
};

type Scope = EditorContextArgument["scope"];
type ContextRequest = FastifyRequest<{
  Params: { id?: string; "*"?: string };
  Querystring: { store?: unknown; keysOnly?: unknown };
}>;

/** Values that flows keep between messages, as the sidebar of Node-RED's editor shows them. */
export function addContextRoutes(app: FastifyInstance, { runner, store, calls }: ContextRoutesOptions): void {
  const reads = { config: requires("context.read") };
  const writes = { config: requires("context.write") };

  async function read(scope: Scope, request: ContextRequest, reply: FastifyReply): Promise<unknown> {
    const { id, key, storeName } = readPlace(request);
    // The runtime would create the context of any id.
    if (scope === "flow" && !store.active().flows.nodes.some((node) => node.id === id)) {
      return {};
    }
    const keysOnly = request.query.keysOnly === undefined ? undefined : true;
    const disconnected = new AbortController();
    reply.raw.once("close", () => disconnected.abort());
    const { result: found } = await callRunner(
      runner,
      readEditorContext,
      { scope, id, key, store: storeName, keysOnly },
      { timeoutMs: () => undefined, signal: disconnected.signal },
    );
    if ("missing" in found) {
      throw new FlowgateError("not_found", "there is no such context store");
    }
    return found.result;
  }

  async function remove(scope: Scope, request: ContextRequest, reply: FastifyReply): Promise<FastifyReply> {
    const { id, key = "", storeName } = readPlace(request);
    const place = [scope, ...(id === undefined ? [] : [encodeSlashes(id)]), key].join("/");
    const input = { scope: place, ...(storeName !== undefined && { store: storeName }) };
    try {
      await calls.call(ContextService.method.deleteContext, input, request, reply);
    } catch (error) {
      if (!(error instanceof FlowgateError && error.reason === "not_found")) {
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

function readPlace({ params, query }: ContextRequest) {
  const { id, "*": key } = params;
  const { store: storeName } = query;
  if (storeName !== undefined && typeof storeName !== "string") {
    throw new FlowgateError("invalid_argument", "store: must be sent once");
  }
  return { id, key: key === "" ? undefined : key, storeName: storeName === "" ? undefined : storeName };
}

function encodeSlashes(text: string): string {
  return text.replaceAll("/", "%2F");
}
