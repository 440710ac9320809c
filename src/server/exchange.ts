import type { IncomingMessage, ServerResponse } from "node:http";
import { type DescMethod, getOption } from "@bufbuild/protobuf";
import { Code, createContextKey, type HandlerContext } from "@connectrpc/connect";
import { codeToString } from "@connectrpc/connect/protocol-connect";
import { type Attributes, type Context, ROOT_CONTEXT, type Span, SpanKind, trace } from "@opentelemetry/api";
import { http } from "../../gen/google/api/annotations_pb.ts";
import { Health } from "../../gen/grpc/health/v1/health_pb.ts";
import type { Outcome, Protocol } from "../telemetry/requests.ts";
import { spanTime } from "../telemetry/span-time.ts";
import { failSpan, traceIds, type TraceIds, traceKey, tracerOf } from "../telemetry/trace.ts";
import { codeOfStatus } from "../transcoding/index.ts";

/** One request and its answer, as metrics, traces and logs tell of it: whoever learns something of it notes it here. */
export class Exchange {
  readonly startMs = performance.now();
  /** Of the RPC that was called; undefined where the request led to none, as far as it came. */
  method: DescMethod | undefined;
  protocol: Protocol = "rest";
  /** Where its work belongs: below the caller's span, and once the call is known below its own. */
  trace: Context;
  #failure: Code | undefined;
  #span: Span | undefined;
  #afterwards: (() => void) | undefined;

  constructor(place: Context) {
    this.trace = place;
  }

  /** It is known which RPC it is for, though perhaps no call will come of it. */
  route(method: DescMethod): void {
    this.method = method;
    this.protocol = this.protocol === "rest" ? "connect" : this.protocol;
  }

  /** The call is known; its body is not read yet. */
  begin(context: HandlerContext): void {
    this.method = context.method;
    this.protocol = protocols[context.protocolName] ?? "rest";
    // Probes ask all the time.
    const tracer = context.service.typeName === Health.typeName ? undefined : tracerOf(this.trace);
    this.#span = tracer?.startSpan(
      nameOf(context.method),
      { kind: SpanKind.SERVER, startTime: spanTime(this.startMs), attributes: attributesOf(context, this.protocol) },
      this.trace,
    );
    if (this.#span !== undefined) {
      this.trace = trace.setSpan(this.trace, this.#span);
    }
    if (this.trace !== ROOT_CONTEXT) {
      context.values.set(traceKey, this.trace);
    }
  }

  /** The first failure counts: what follows is its consequence. */
  fail(code: Code): void {
    this.#failure ??= code;
  }

  /** Calls back when it ends. */
  whenEnded(callback: () => void): void {
    const before = this.#afterwards;
    this.#afterwards =
      before === undefined
        ? callback
        : () => {
            before();
            callback();
          };
  }

  /** The response is closed, whatever has closed it. */
  end({ writableEnded, statusCode }: ServerResponse): Outcome {
    this.#afterwards?.();
    const outcome = this.#outcome(writableEnded, statusCode);
    if (this.#span !== undefined) {
      this.#span.setAttribute("http.response.status_code", statusCode);
      noteOutcome(this.#span, this.protocol, outcome);
      this.#span.end(spanTime(performance.now()));
    }
    return outcome;
  }

  #outcome(isAnswered: boolean, status: number): Outcome {
    if (!isAnswered && (this.#failure === undefined || this.#failure === Code.Aborted)) {
      return Code.Canceled;
    }
    return this.#failure ?? (status < 400 ? undefined : codeOfStatus(status));
  }
}

const key = Symbol("exchange");

/** What a request is part of; undefined where the server observes nothing. */
export function exchangeOf(request: IncomingMessage): Exchange | undefined {
  return (request as { [key]?: Exchange })[key];
}

/** Calls back when a response is closed. Where it is part of an exchange, without a listener of its own, which would cost more. */
export function whenEnded(response: ServerResponse, callback: () => void): void {
  const exchange = exchangeOf(response.req);
  if (exchange === undefined) {
    response.once("close", callback);
  } else {
    exchange.whenEnded(callback);
  }
}

export function joinExchange(exchange: Exchange, request: IncomingMessage): void {
  (request as { [key]?: Exchange })[key] = exchange;
}

/** The exchange that a call is made in. Set by the server. */
export const exchangeKey = createContextKey<Exchange | undefined>(undefined, { description: "exchange" });

/** For log lines about a request. */
export function traceIdsOf(request: IncomingMessage): TraceIds {
  return traceIds(exchangeOf(request)?.trace ?? ROOT_CONTEXT);
}

const protocols: Readonly<Record<string, Protocol>> = {
  http: "rest",
  connect: "connect",
  grpc: "grpc",
  "grpc-web": "grpc-web",
};

function nameOf(method: DescMethod): string {
  return `${method.parent.typeName}/${method.name}`;
}

/** OpenTelemetry's semantic conventions for RPC servers and, of the HTTP API, for HTTP servers. */
function attributesOf({ method, requestMethod, url }: HandlerContext, protocol: Protocol): Attributes {
  const rpc = { "rpc.service": method.parent.typeName, "rpc.method": method.name };
  if (protocol !== "rest") {
    return { ...rpc, "rpc.system": protocol === "connect" ? "connect_rpc" : "grpc" };
  }
  const route = routeOf(method);
  return {
    ...rpc,
    "http.request.method": requestMethod,
    "url.path": new URL(url).pathname,
    ...(route !== undefined && { "http.route": route }),
  };
}

/** undefined where there is not just one. */
function routeOf(method: DescMethod): string | undefined {
  const { pattern, additionalBindings } = getOption(method, http);
  return typeof pattern.value === "string" && additionalBindings.length === 0 ? pattern.value : undefined;
}

/** Those for which the server is to blame, as the conventions for gRPC have it; of others the client's span tells. */
const serverFaults: ReadonlySet<Code> = new Set([
  Code.Unknown,
  Code.DeadlineExceeded,
  Code.Unimplemented,
  Code.Internal,
  Code.Unavailable,
  Code.DataLoss,
]);

function noteOutcome(span: Span, protocol: Protocol, outcome: Outcome): void {
  if (protocol === "grpc" || protocol === "grpc-web") {
    span.setAttribute("rpc.grpc.status_code", outcome ?? 0);
  }
  if (outcome === undefined) {
    return;
  }
  const kind = codeToString(outcome);
  if (protocol === "connect") {
    span.setAttribute("rpc.connect_rpc.error_code", kind);
  }
  if (serverFaults.has(outcome)) {
    failSpan(span, kind);
  }
}
