import type { DescMethod } from "@bufbuild/protobuf";
import { Code } from "@connectrpc/connect";
import { codeToString } from "@connectrpc/connect/protocol-connect";
import { Health } from "@flowgate/gateway/gen/grpc/health/v1/health_pb.js";
import { codeOfStatus } from "@flowgate/gateway/server";
import { type Attributes, type Context, type Span, SpanKind, trace } from "@opentelemetry/api";
import type { CallOutcome, Protocol } from "../../telemetry/observer.ts";
import { failSpan, spanTime, tracerOf } from "@flowgate/base/spans";

export class RequestRecord {
  readonly startMs = performance.now();
  /** The RPC; undefined until the request is routed to one. */
  method: DescMethod | undefined;
  protocol: Protocol;
  /** Trace context of the caller; once the call has begun, of the call itself. */
  trace: Context;
  #failure: Code | undefined;
  #span: Span | undefined;

  constructor(trace: Context, contentType: string | undefined) {
    this.trace = trace;
    this.protocol = contentType === undefined ? "rest" : protocolOf(contentType);
  }

  /** Records the route of the request. The call may still be rejected before it begins. */
  routed(method: DescMethod | undefined, kind: "rpc" | "rest" | "endpoint"): void {
    this.method = method;
    if (kind === "rpc" && this.protocol === "rest") {
      this.protocol = "connect";
    }
  }

  begin(method: DescMethod, request: SpannedRequest): void {
    const started = startCallSpan(this.trace, method, this.protocol, this.startMs, request);
    if (started !== undefined) {
      this.#span = started.span;
      this.trace = started.trace;
    }
  }

  /** Records a failure. Only the first one counts: others are its consequences. */
  fail(code: Code): void {
    this.#failure ??= code;
  }

  /** Records the end of the exchange. Returns its outcome; undefined for success. */
  end(isSent: boolean, status: number): CallOutcome {
    const outcome = this.#outcome(isSent, status);
    if (this.#span !== undefined) {
      endCallSpan(this.#span, this.protocol, outcome, status);
    }
    return outcome;
  }

  #outcome(isSent: boolean, status: number): CallOutcome {
    if (!isSent && (this.#failure === undefined || this.#failure === Code.Aborted)) {
      return Code.Canceled;
    }
    return this.#failure ?? (status < 400 ? undefined : codeOfStatus(status));
  }
}

/** The protocol by Content-Type alone, for requests that are rejected before they are routed. */
function protocolOf(contentType: string): Protocol {
  if (contentType.startsWith("application/grpc")) {
    return contentType.startsWith("application/grpc-web") ? "grpc-web" : "grpc";
  }
  return contentType.startsWith("application/connect+") ? "connect" : "rest";
}

type SpannedRequest = {
  readonly httpMethod: string;
  readonly path: string;
  readonly route: { readonly template?: string | undefined };
};

/** Starts the span of a call below the caller's; undefined if nothing is traced. */
function startCallSpan(
  parent: Context,
  method: DescMethod,
  protocol: Protocol,
  startMs: number,
  request: SpannedRequest,
): { readonly span: Span; readonly trace: Context } | undefined {
  // Health probes are not traced: they are frequent.
  const tracer = method.parent.typeName === Health.typeName ? undefined : tracerOf(parent);
  if (tracer === undefined) {
    return undefined;
  }
  const span = tracer.startSpan(
    `${method.parent.typeName}/${method.name}`,
    { kind: SpanKind.SERVER, startTime: spanTime(startMs), attributes: attributesOf(method, protocol, request) },
    parent,
  );
  return { span, trace: trace.setSpan(parent, span) };
}

function endCallSpan(span: Span, protocol: Protocol, outcome: CallOutcome, status: number): void {
  span.setAttribute("http.response.status_code", status);
  if (protocol === "grpc" || protocol === "grpc-web") {
    span.setAttribute("rpc.grpc.status_code", outcome ?? 0);
  }
  if (outcome !== undefined) {
    const kind = codeToString(outcome);
    if (protocol === "connect") {
      span.setAttribute("rpc.connect_rpc.error_code", kind);
    }
    if (serverErrors.has(outcome)) {
      failSpan(span, kind);
    }
  }
  span.end(spanTime(performance.now()));
}

/** Attributes by OpenTelemetry's semantic conventions for RPC servers and, for the HTTP API, for HTTP servers. */
function attributesOf(method: DescMethod, protocol: Protocol, { httpMethod, path, route }: SpannedRequest): Attributes {
  const rpc = { "rpc.service": method.parent.typeName, "rpc.method": method.name };
  if (protocol !== "rest") {
    return { ...rpc, "rpc.system": protocol === "connect" ? "connect_rpc" : "grpc" };
  }
  return {
    ...rpc,
    "http.request.method": httpMethod,
    "url.path": path,
    ...(route.template !== undefined && { "http.route": route.template }),
  };
}

/** Codes that OpenTelemetry's conventions for gRPC classify as errors of the server rather than the client. */
const serverErrors: ReadonlySet<Code> = new Set([
  Code.Unknown,
  Code.DeadlineExceeded,
  Code.Unimplemented,
  Code.Internal,
  Code.Unavailable,
  Code.DataLoss,
]);
