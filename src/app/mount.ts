import { type ConnectRouter, type Interceptor, createContextValues } from "@connectrpc/connect";
import { createNodeHandler } from "@flowgate/gateway/node";
import type { Logger } from "pino";
import { type Peer, peerKey, principalKey } from "../auth/caller.ts";
import type { Options } from "../options/parse.ts";
import { createErrorLog, type Gate, toFailure } from "../server/pipeline/errors.ts";
import { gatewayOptions } from "../server/pipeline/gateway-options.ts";
import type { ServerOptions } from "../server/server-options.ts";
import { createRequestIds } from "../server/pipeline/request-context.ts";
import type { Mount } from "./mounted-api.ts";

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
        onError: createErrorLog(log),
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
