import type { DescMethod } from "@bufbuild/protobuf";
import { Code } from "@connectrpc/connect";
import { codeToString } from "@connectrpc/connect/protocol-connect";
import { type Attributes, type Context, type Span, SpanKind, trace } from "@opentelemetry/api";
import { Health } from "@flowgate/gateway/gen/grpc/health/v1/health_pb.js";
import type { Outcome, Protocol } from "../../telemetry/observer.ts";
import { failSpan, spanTime, tracerOf } from "../../telemetry/trace.ts";

/** The properties of a request that its span records. */
export type SpannedRequest = {
  readonly httpMethod: string;
  readonly path: string;
  readonly route: { readonly template?: string | undefined };
};

/** Starts the span of a call below the caller's; undefined if nothing is traced. */
export function startCallSpan(
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

export function endCallSpan(span: Span, protocol: Protocol, outcome: Outcome, status: number): void {
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
