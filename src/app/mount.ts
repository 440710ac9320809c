import type { IncomingHttpHeaders } from "node:http";
import { type ConnectRouter, type ContextValues, type Interceptor, createContextValues } from "@connectrpc/connect";
import type { ErrorShape, GatewayError } from "@flowgate/gateway";
import { type NodeHandler, createNodeHandler } from "@flowgate/gateway/node";
import type { Logger } from "pino";
import { type Peer, peerKey, principalKey } from "../auth/caller.ts";
import type { Options } from "../options/parse.ts";
import { type Gate, toFailure } from "../server/pipeline/errors.ts";
import { gatewayOptions } from "../server/pipeline/gateway-options.ts";
import type { ServerOptions } from "../server/open-server.ts";
import { createRequestIds } from "../server/pipeline/request-context.ts";

type MountOptions = Pick<ServerOptions, "routes" | "gate" | "interceptors" | "deferred" | "limits" | "log"> & {
  readonly options: Pick<Options, "adminAuth" | "identity" | "allowUnauthenticated">;
  readonly shutdownSignal: AbortSignal;
};

export function createMount({
  routes: register,
  gate,
  interceptors: own,
  deferred = [],
  limits,
  log,
  options,
  shutdownSignal,
}: MountOptions): Mount {
  const { adminAuth, identity, allowUnauthenticated } = options;
  const requestGate = withFailures(gate, log);
  // The outermost one first.
  const interceptors = [convertErrors(log), requireGate(requestGate), ...own];

  const routes = (router: ConnectRouter): ConnectRouter => {
    if ((adminAuth ?? identity) === undefined && !allowUnauthenticated) {
      throw new Error(
        "the API can't be mounted: everyone who reaches the program's server could deploy flows; set adminAuth, or allowUnauthenticated if the program authenticates its callers itself",
      );
    }
    const registered: ConnectRouter = {
      handlers: router.handlers,
      service(service, implementation, more) {
        router.service(service, implementation, { ...more, requestGate, interceptors, readMaxBytes: limits.bodyBytes });
        return registered;
      },
      rpc(method, implementation, more) {
        router.rpc(method, implementation, { ...more, requestGate, interceptors, readMaxBytes: limits.bodyBytes });
        return registered;
      },
    };
    register(registered);
    return router;
  };

  const requestIdOf = createRequestIds();
  const contextValues: Mount["contextValues"] = ({ headers, ip, socket }) => {
    const peer: Peer = { address: ip ?? socket?.remoteAddress ?? "", requestId: requestIdOf(headers) };
    return createContextValues().set(peerKey, peer);
  };

  return {
    routes,
    contextValues,
    errors: gatewayOptions.errors,
    createHandler: () =>
      createNodeHandler({
        ...gatewayOptions,
        routes,
        contextValues,
        deferred,
        readMaxBytes: limits.bodyBytes,
        ...(limits.deadlineMs !== undefined && { maxTimeoutMs: limits.deadlineMs }),
        shutdownSignal,
        unknownPath: "pass",
      }),
  };
}

/** A gate that throws ConnectErrors, which every adapter understands. */
function withFailures(gate: Gate, log: Logger): Gate {
  return (context) => {
    try {
      const wait = gate(context);
      return wait?.catch((error: unknown) => {
        throw toFailure(error, log, context);
      });
    } catch (error) {
      throw toFailure(error, log, context);
    }
  };
}

/** Runs the gate for adapters without the option `requestGate` (Connect before 2.2), after the body was read. */
function requireGate(gate: Gate): Interceptor {
  return (next) => async (request) => {
    const { contextValues: values, header: requestHeader, service, method, url, signal } = request;
    if (values.get(principalKey) === principalKey.defaultValue) {
      await gate({ values, requestHeader, service, method, url, signal } as Parameters<Gate>[0]);
    }
    return next(request);
  };
}

function convertErrors(log: Logger): Interceptor {
  return (next) => async (request) => {
    try {
      const response = await next(request);
      return response.stream ? { ...response, message: converted(response.message) } : response;
    } catch (error) {
      throw failureOf(error);
    }

    function failureOf(error: unknown): Error {
      const { method, contextValues: values, signal } = request;
      return toFailure(error, log, { method, values, signal });
    }

    async function* converted<T>(messages: AsyncIterable<T>): AsyncGenerator<T> {
      try {
        yield* messages;
      } catch (error) {
        throw failureOf(error);
      }
    }
  };
}

/** A request of Node, Express or Fastify. */
type MountedRequest = {
  readonly headers: IncomingHttpHeaders;
  /** The client's address, with regard to the proxies that the framework trusts. */
  readonly ip?: string | undefined;
  readonly socket?: { readonly remoteAddress?: string | undefined } | undefined;
};

/** The API for a server of the program. */
export type Mount = {
  /**
   * Registers the services with Connect's router, for any of its adapters. Each call is authenticated and authorized as on the port of the
   * gateway. Throws an Error if everyone could call it: without `adminAuth`, `identity` and `allowUnauthenticated`.
   */
  readonly routes: (router: ConnectRouter) => ConnectRouter;
  /** The option `contextValues` of the adapters. Without it, failed logins of all clients are counted together. */
  readonly contextValues: (request: MountedRequest) => ContextValues;
  /** The option `errors` of the gateway library's adapters, for the documented error bodies of the HTTP API. */
  readonly errors: (error: GatewayError) => ErrorShape;
  /**
   * Creates a request listener for all protocols, REST included. It calls `next` for other paths, and responds with 404 without it.
   * Throws as `routes`.
   */
  readonly createHandler: () => NodeHandler;
};
