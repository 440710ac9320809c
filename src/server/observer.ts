import type { ServerResponse } from "node:http";
import { type Context, context as contexts, ROOT_CONTEXT, trace } from "@opentelemetry/api";
import type { Protocol, RequestMetrics } from "../telemetry/requests.ts";
import { readTraceparent, tracerOf } from "../telemetry/trace.ts";
import { codeOfStatus } from "../transcoding/index.ts";
import { Exchange, exchangeOf, joinExchange } from "./exchange.ts";
import type { RequestHandler } from "./listener/request-handler.ts";

/** Sees every request that reaches the port, in any protocol, and what becomes of it. */
export interface RequestObserver {
  /** The same handler, observed. */
  observe(handler: RequestHandler): RequestHandler;
  /** What came was no request, and was answered with this status; `response` is the one that it broke into. */
  malformed(status: number, response: ServerResponse | undefined): void;
}

/** `root` is where traces begin that no caller has begun. */
export function createObserver(metrics: RequestMetrics | undefined, root: Context = ROOT_CONTEXT): RequestObserver {
  const isTraced = tracerOf(root) !== undefined;

  // Not a function for each request: it knows the response that it is called on.
  function settle(this: ServerResponse): void {
    const exchange = exchangeOf(this.req);
    if (exchange === undefined) {
      return;
    }
    const outcome = exchange.end(this);
    metrics?.ended(exchange.method, exchange.protocol, outcome, (performance.now() - exchange.startMs) / 1000);
  }

  return {
    observe: (handler) => (request, response) => {
      const { traceparent, tracestate, "content-type": type } = request.headers;
      const base = isTraced ? rootBelow(root) : root;
      const exchange = new Exchange(traceparent === undefined ? base : readTraceparent(base, traceparent, tracestate));
      if (type !== undefined) {
        exchange.protocol = protocolOf(type);
      }
      joinExchange(exchange, request);
      metrics?.began();
      response.on("close", settle);
      handler(request, response);
    },

    malformed(status, response) {
      const code = codeOfStatus(status);
      const exchange = response && exchangeOf(response.req);
      if (exchange === undefined) {
        metrics?.began();
        metrics?.ended(undefined, "rest", code, 0);
      } else {
        exchange.fail(code);
      }
    },
  };
}

/** Below the span of an embedder's own instrumentation, if it has one for this request. */
function rootBelow(root: Context): Context {
  const span = trace.getSpan(contexts.active());
  return span === undefined ? root : trace.setSpan(root, span);
}

/** Until the call is known: of one that is refused before, this is all that there is. */
function protocolOf(contentType: string): Protocol {
  if (contentType.startsWith("application/grpc")) {
    return contentType.startsWith("application/grpc-web") ? "grpc-web" : "grpc";
  }
  return contentType.startsWith("application/connect+") ? "connect" : "rest";
}
