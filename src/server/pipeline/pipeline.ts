import { Code } from "@connectrpc/connect";
import { type Context, context as contexts, ROOT_CONTEXT, trace } from "@opentelemetry/api";
import type { Logger } from "pino";
import { readTraceparent, tracerOf } from "../../telemetry/trace.ts";
import { type TranscodingResponse, codeOfStatus } from "@flowgate/transcoding/server";
import { internalMessage } from "../errors/failures.ts";
import type { ExchangeHandler } from "../listener/exchange.ts";
import { errorResponse } from "../error-response.ts";
import { RequestContext, type RequestEnvironment } from "./request-context.ts";

/** Returns the response of a request that is refused, or nothing. May set headers of the response. */
export type Guard = (request: RequestContext) => TranscodingResponse | undefined;

export type PipelineOptions = {
  readonly environment: RequestEnvironment;
  /** In order; the first refusal counts. */
  readonly guards: readonly Guard[];
  /** Where traces begin that no caller has begun. */
  readonly traceRoot: Context | undefined;
  readonly log: Logger;
};

export type Pipeline = {
  readonly handle: ExchangeHandler;
  /** Something that is no request was answered with this status. */
  readonly malformed: (status: number) => void;
};

/**
 * The one way of every request, whatever its protocol and version of HTTP: context, guards, route, and then what the
 * route does (gate, decode, call, encode), and its answer is sent.
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
      const refused = guard(request);
      if (refused !== undefined) {
        request.send(refused);
        return;
      }
    }
    const { route } = request;
    const isRpc = route.kind === "rpc";
    const answer = route.serve(request);
    if (answer instanceof Promise) {
      answer.then((settled) => request.send(settled, isRpc)).catch((error: unknown) => fail(request, error));
    } else {
      request.send(answer, isRpc);
    }
  };

  return {
    handle(exchange, refusal) {
      let request: RequestContext | undefined;
      try {
        const { traceparent, tracestate } = exchange.headers;
        const base = isTraced ? rootBelow(root) : root;
        const place = traceparent === undefined ? base : readTraceparent(base, traceparent, tracestate);
        request = new RequestContext(exchange, environment, place);
        exchange.observer = request;
        observer.requestStarted();
        if (refusal === undefined) {
          serve(request);
        } else {
          request.send(refusal);
        }
      } catch (error) {
        // The caller is an event of Node: what it throws would end the process.
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

/** Below the span of an embedder's own instrumentation, if it has one for this request. */
function rootBelow(root: Context): Context {
  const span = trace.getSpan(contexts.active());
  return span === undefined ? root : trace.setSpan(root, span);
}
