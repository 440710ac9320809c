import { Code } from "@connectrpc/connect";
import type { GatewayResponse } from "@flowgate/gateway";
import { codeOfStatus } from "@flowgate/gateway/server";
import { type Context, context as contexts, ROOT_CONTEXT, trace } from "@opentelemetry/api";
import type { Logger } from "pino";
import { readTraceparent, tracerOf } from "@flowgate/base/spans";
import { errorResponse } from "../http/error-response.ts";
import type { ExchangeHandler } from "../http/exchange.ts";
import { internalMessage } from "./errors.ts";
import { RequestContext, type RequestEnvironment } from "./request-context.ts";

/** Returns a response to end the request early, or undefined to continue. May set response headers. */
export type Guard = (request: RequestContext) => GatewayResponse | undefined;

export type PipelineOptions = {
  readonly environment: RequestEnvironment;
  readonly guards: readonly Guard[];
  /** Parent of traces that have no parent in the request. */
  readonly traceRoot: Context | undefined;
  readonly log: Logger;
};

export type Pipeline = {
  readonly handle: ExchangeHandler;
  /** Records a response with this status to bytes that are not a valid request. */
  readonly malformed: (status: number) => void;
};

/**
 * Processes every request, whatever its protocol and HTTP version: creates its context, runs the guards, finds the
 * route, lets it serve the request (gate, decode, call, encode), and sends the response.
 */
export function createPipeline(options: PipelineOptions): Pipeline {
  const { environment, guards, traceRoot: root = ROOT_CONTEXT, log } = options;
  const { observer } = environment;
  const isTraced = tracerOf(root) !== undefined;

  const fail = (request: RequestContext, error: unknown): void => {
    const { requestId, traceIds, exchange } = request;
    log.error({ requestId, ...traceIds, err: error }, "a request failed unexpectedly");
    request.fail(Code.Internal);
    try {
      request.send(errorResponse(500, internalMessage(requestId)));
    } finally {
      if (!exchange.isSent) {
        exchange.abort();
      }
    }
  };

  const serve = (request: RequestContext): void => {
    for (const guard of guards) {
      const response = guard(request);
      if (response !== undefined) {
        request.send(response);
        return;
      }
    }
    const { route } = request;
    const isRpc = route.kind === "rpc";
    const response = route.serve(request);
    if (response instanceof Promise) {
      response.then((resolved) => request.send(resolved, isRpc)).catch((error: unknown) => fail(request, error));
    } else {
      request.send(response, isRpc);
    }
  };

  return {
    handle(exchange, rejection) {
      let request: RequestContext | undefined;
      try {
        const { traceparent, tracestate } = exchange.headers;
        const base = isTraced ? withActiveSpan(root) : root;
        const parent = traceparent === undefined ? base : readTraceparent(base, traceparent, tracestate);
        request = new RequestContext(exchange, environment, parent);
        exchange.observer = request;
        observer.requestStarted();
        if (rejection === undefined) {
          serve(request);
        } else {
          request.send(rejection);
        }
      } catch (error) {
        // The caller is a Node event emitter: an error thrown here would terminate the process.
        if (request === undefined) {
          log.error({ err: error }, "a request failed unexpectedly");
          exchange.abort();
        } else {
          fail(request, error);
        }
      }
    },

    malformed(status) {
      observer.requestStarted();
      observer.requestEnded(undefined, "rest", codeOfStatus(status), 0);
    },
  };
}

/** The root context with the span of the embedder's instrumentation, if one is active for this request. */
function withActiveSpan(root: Context): Context {
  const span = trace.getSpan(contexts.active());
  return span === undefined ? root : trace.setSpan(root, span);
}

/** Logs each completed request at `debug`, failed ones (5xx) at `error`. Undefined unless `debug` is enabled: then not even failed requests are logged. */
export function createRequestLog(log: Logger): ((request: RequestContext) => void) | undefined {
  if (!log.isLevelEnabled("debug")) {
    return undefined;
  }
  return (request) => {
    const { status, httpVersion } = request.exchange;
    // 501 and 505: the request needs something that this server does not support.
    const level = status >= 500 && status !== 501 && status !== 505 ? "error" : "debug";
    log[level](
      {
        requestId: request.requestId,
        ...request.traceIds,
        client: request.address,
        method: request.httpMethod,
        // Without the query, which may contain secrets.
        path: request.path,
        status,
        ms: Math.round((performance.now() - request.record.startMs) * 100) / 100,
        protocol: `HTTP/${httpVersion}`,
      },
      "request completed",
    );
  };
}
