import type { ContextValues } from "@connectrpc/connect";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { METHODS, type OutgoingHttpHeaders } from "node:http";
import type { GatewayResponse } from "../../http/response.ts";
import { fastifyOptionChecks } from "../../options/adapter-checks.ts";
import { createGateway, type Gateway, type GatewayMatch } from "../../gateway.ts";
import { createAdapterGateway, type AdapterOptions } from "../adapter.ts";
import { NodeGatewayRequest } from "../node/request.ts";
import { sendResponse } from "../node/send-response.ts";

/** The options of fastifyGatewayPlugin. `contextValues` receives the request of Fastify. */
export type FastifyGatewayPluginOptions = AdapterOptions<[request: FastifyRequest]>;

/**
 * A Fastify plugin that serves the RPCs of `routes` over Connect, gRPC-Web, gRPC, and REST for those with a google.api.http rule. With
 * `protocols: ["rest"]` it can be registered together with fastifyConnectPlugin, which takes the same `routes`.
 *
 * The plugin registers a single wildcard route and does its own routing on the request target, without the instance's
 * prefix. It responds to all requests that no other route of the Fastify instance matches, including with 404 and 405. With
 * `unknownPath: "pass"`, a request with the path of no RPC and no REST route goes to the not-found handler instead. For errors that
 * Fastify responds with before routing, see `createFrameworkErrorHandler`.
 */
export function fastifyGatewayPlugin(
  instance: FastifyInstance,
  options: FastifyGatewayPluginOptions,
  done: (error?: Error) => void,
): void {
  // A plugin with a callback must report errors through it.
  try {
    serve(instance, createAdapterGateway(createGateway, options, fastifyOptionChecks), options);
  } catch (error) {
    done(error as Error);
    return;
  }
  done();
}

function serve(
  instance: FastifyInstance,
  { match }: Gateway,
  { contextValues, unknownPath }: FastifyGatewayPluginOptions,
): void {
  // Bodies must stay unread until the request gate has accepted the call.
  instance.removeAllContentTypeParsers();
  // A regular expression, since Fastify caches its matches; it would look up "*" for each request.
  instance.addContentTypeParser(/^/, (_request, _payload, parsed) => parsed(null));
  addAllMethods(instance);

  const passes = unknownPath === "pass";
  // Not an async function, so that a synchronous response is sent without a promise.
  const handler = (request: FastifyRequest, reply: FastifyReply): Promise<void> | undefined => {
    const received = new FastifyGatewayRequest(request, reply, instance.prefix, contextValues);
    const matched = match(received.httpMethod, received.target, received.headers);
    if (passes && !matched.isKnownPath) {
      reply.callNotFound();
      return undefined;
    }
    const response = matched.respond(received);
    return response instanceof Promise
      ? response.then((settled) => send(settled, request, reply, matched.kind))
      : send(response, request, reply, matched.kind);
  };
  // Fastify does not check the Content-Type of these methods.
  const bodiless = ["GET", "HEAD"];
  addRoute(instance, { method: bodiless, handler });
  addRoute(instance, {
    method: instance.supportedMethods.filter((method) => !bodiless.includes(method)),
    handler,
    preParsing(request, _reply, payload, parsed) {
      hideContentType(request);
      parsed(null, payload);
    },
  });
}

function addAllMethods(instance: FastifyInstance): void {
  for (const method of METHODS) {
    if (method !== "CONNECT" && !instance.supportedMethods.includes(method)) {
      instance.addHttpMethod(method, { hasBody: true });
    }
  }
}

/** Adds a wildcard route. Throws an Error if the application has one. */
function addRoute(instance: FastifyInstance, route: Omit<Parameters<FastifyInstance["route"]>[0], "url">): void {
  try {
    instance.route({ ...route, url: "/*" });
  } catch (cause) {
    if ((cause as { code?: unknown }).code !== "FST_ERR_DUPLICATED_ROUTE") {
      throw cause;
    }
    throw new Error(
      `the application has a route for ${instance.prefix}/* already, which the gateway needs; ` +
        'use a not-found handler with unknownPath: "pass" instead of that route, or register the gateway with a prefix',
      { cause },
    );
  }
}

/**
 * Writes to the raw response, as fastifyConnectPlugin does, with the headers that hooks have set: reply.send() takes about
 * 5 % of the time of a small response.
 */
function send(
  response: GatewayResponse,
  request: FastifyRequest,
  reply: FastifyReply,
  kind: GatewayMatch["kind"],
): Promise<void> | undefined {
  const sent = sendResponse(response, request.raw, reply.raw, reply.getHeaders() as OutgoingHttpHeaders, kind);
  reply.hijack();
  return sent;
}

/** A Content-Type (RFC 9110, section 8.3.1) that Fastify accepts. */
const mediaType = /^\s*[\w!#$%&'*+.^`|~-]+\/[\w!#$%&'*+.^`|~-]+\s*(?:;|$)/;

/**
 * Replaces a malformed Content-Type, or a missing one of QUERY, which Fastify would reject before later hooks run. The
 * gateway validates the original header after all hooks.
 */
function hideContentType(request: FastifyRequest): void {
  const contentType = request.raw.headers["content-type"];
  if (contentType === undefined ? request.method === "QUERY" : !mediaType.test(contentType)) {
    request.headers = { "content-type": "application/octet-stream" };
  }
}

class FastifyGatewayRequest extends NodeGatewayRequest {
  readonly #request: FastifyRequest;
  readonly #contextValues: FastifyGatewayPluginOptions["contextValues"];

  constructor(
    request: FastifyRequest,
    reply: FastifyReply,
    prefix: string,
    contextValues: FastifyGatewayPluginOptions["contextValues"],
  ) {
    const { url = "" } = request.raw;
    super(request.raw, reply.raw, prefix !== "" && url.startsWith(prefix) ? url.slice(prefix.length) : url);
    this.#request = request;
    this.#contextValues = contextValues;
  }

  url(): string {
    return `${this.#request.protocol}://${this.#request.host}${this.#request.raw.url}`;
  }

  contextValues(): ContextValues | undefined {
    return this.#contextValues?.(this.#request);
  }
}
