import { ConnectError, createContextKey, type Interceptor } from "@connectrpc/connect";
import { codeToString } from "@connectrpc/connect/protocol-connect";
import {
  type Attributes,
  type AttributeValue,
  type Context,
  ROOT_CONTEXT,
  type Span,
  SpanStatusCode,
  TraceFlags,
  type Tracer,
  context as contexts,
  createContextKey as createTraceKey,
  createTraceState,
  isSpanContextValid,
  trace,
} from "@opentelemetry/api";
import { FlowgateError } from "../errors.ts";
import { spanTime } from "./span-time.ts";

// What belongs to a request is told where it is by OpenTelemetry's Context, handed on as a value: no
// AsyncLocalStorage is needed for that, and where no one traces it is the same empty object for all.

/** The place of a call in its trace. Set before interceptors and implementations run. */
export const traceKey = createContextKey<Context>(ROOT_CONTEXT, { description: "trace" });

const tracerKey = createTraceKey("flowgate tracer");

/** Where traces begin whose spans go to this tracer. */
export function traceRoot(tracer: Tracer): Context {
  return ROOT_CONTEXT.setValue(tracerKey, tracer);
}

/** W3C Trace Context, section 3.2.2; of a later version than 00 its first four fields count (section 4.3). */
const traceparentPattern = /^(?!ff)([\da-f]{2})-([\da-f]{32})-([\da-f]{16})-([\da-f]{2})(?<more>-.*)?$/;

/** The place that a caller's trace headers name. Where they are not valid, they are as good as absent. */
export function readTraceparent(root: Context, traceparent: unknown, tracestate?: unknown): Context {
  const match = typeof traceparent === "string" ? traceparentPattern.exec(traceparent) : null;
  const [, version, traceId = "", spanId = "", flags = ""] = match ?? [];
  if (version === "00" && match?.groups?.["more"] !== undefined) {
    return root;
  }
  const spanContext = {
    traceId,
    spanId,
    traceFlags: Number.parseInt(flags, 16) & TraceFlags.SAMPLED,
    isRemote: true,
    ...(typeof tracestate === "string" && { traceState: createTraceState(tracestate) }),
  };
  return isSpanContextValid(spanContext) ? trace.setSpanContext(root, spanContext) : root;
}

/** The header for whom we call; undefined outside of any trace. */
export function formatTraceparent(context: Context): string | undefined {
  const spanContext = trace.getSpanContext(context);
  return spanContext === undefined
    ? undefined
    : `00-${spanContext.traceId}-${spanContext.spanId}-${spanContext.traceFlags.toString(16).padStart(2, "0")}`;
}

/** What log lines are found by, beside the spans: named as OpenTelemetry has it for logs that are not OTLP. */
export type TraceIds = { readonly trace_id?: string; readonly span_id?: string };

const noIds: TraceIds = {};

export function traceIds(context: Context): TraceIds {
  const spanContext = trace.getSpanContext(context);
  return spanContext === undefined ? noIds : { trace_id: spanContext.traceId, span_id: spanContext.spanId };
}

/** A span under way. Where no one traces it is none, and its context that of its parent. */
export type OpenSpan = {
  readonly context: Context;
  set(name: string, value: AttributeValue): void;
  /** `failure` is one of few words: no message, which may tell what only the log should. */
  end(failure?: string): void;
};

export function beginSpan(parent: Context, name: string, attributes: Attributes = {}): OpenSpan {
  const span = tracerOf(parent)?.startSpan(name, { attributes, startTime: spanTime(performance.now()) }, parent);
  if (span === undefined) {
    return { context: parent, set() {}, end() {} };
  }
  return {
    context: trace.setSpan(parent, span),
    set: (key, value) => void span.setAttribute(key, value),
    end(failure) {
      if (failure !== undefined) {
        failSpan(span, failure);
      }
      span.end(spanTime(performance.now()));
    },
  };
}

/** Does some work within a span of its own; where no one traces, just does it. */
export async function inSpan<T>(
  parent: Context,
  name: string,
  attributes: Attributes,
  work: (span: OpenSpan) => Promise<T>,
): Promise<T> {
  const span = beginSpan(parent, name, attributes);
  try {
    const result = await (span.context === parent ? work(span) : contexts.with(span.context, work, undefined, span));
    span.end();
    return result;
  } catch (error) {
    span.end(kindOf(error));
    throw error;
  }
}

/** Makes the call's span the active one for implementations: instrumentations of what they use nest below it. */
export const activateTrace: Interceptor = (next) => (request) =>
  contexts.with(request.contextValues.get(traceKey), next, undefined, request);

export function failSpan(span: Span, kind: string): void {
  span.setAttribute("error.type", kind).setStatus({ code: SpanStatusCode.ERROR });
}

export function tracerOf(context: Context): Tracer | undefined {
  return context.getValue(tracerKey) as Tracer | undefined;
}

function kindOf(error: unknown): string {
  if (error instanceof FlowgateError) {
    return error.reason;
  }
  return error instanceof ConnectError ? codeToString(error.code) : "internal";
}
